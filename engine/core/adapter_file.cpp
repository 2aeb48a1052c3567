#include "adapter_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "border.h"
#include "failure.h"
#include "json_text.h"
#include "sha256.h"

namespace edgec::engine {
namespace {

constexpr const char* kFormat = "edgec-adapter-1";
constexpr size_t kLengthBytes = 8, kMostTensors = size_t{1} << 16;
constexpr int64_t kMostSize = int64_t{1} << 30;

struct StoredTensor {
  std::string name, dtype;
  std::vector<int64_t> shape, offsets;
};

struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;  // in the header's order
};

void demand(bool holds, const std::string& why) {
  if (!holds) throw Failure(EDGEC_REFUSED, why);
}

bool is_sha256(const std::string& text) { return text.size() == 64 && is_digest(text); }

std::vector<char> whole_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const bool plain = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool fits = plain && static_cast<uint64_t>(status.st_size) <= kMostFile;
  std::vector<char> bytes(fits ? static_cast<size_t>(status.st_size) : 0);
  size_t held = 0;
  for (ssize_t got = 1; fits && got > 0 && held < bytes.size(); held += static_cast<size_t>(got)) {
    got = std::max<ssize_t>(read(file, bytes.data() + held, bytes.size() - held), 0);
  }
  if (file >= 0) close(file);
  demand(fits && held == bytes.size(), plain && !fits ? "it is larger than 4 GiB" : "it cannot be read");
  return bytes;
}

std::vector<int64_t> naturals(JsonText& text) {
  std::vector<int64_t> values;
  text.array([&] {
    demand(values.size() < 2, "a tensor has more than two dimensions");
    values.push_back(text.natural());
  });
  demand(values.size() == 2, "a tensor has other than two dimensions");
  return values;
}

StoredTensor tensor(JsonText& text, const std::string& name) {
  StoredTensor read{name, "", {}, {}};
  text.object([&](const std::string& field) {
    if (field == "dtype") {
      read.dtype = text.string();
    } else if (field == "shape") {
      read.shape = naturals(text);
    } else if (field == "data_offsets") {
      read.offsets = naturals(text);
    } else {
      demand(false, "a tensor has an unknown field");
    }
  });
  demand(!read.dtype.empty() && !read.shape.empty() && !read.offsets.empty(), "a tensor lacks a field");
  return read;
}

Header header(std::string_view written) {
  JsonText text(written, "its header");
  Header read;
  text.object([&](const std::string& name) {
    if (name == "__metadata__") {
      text.object([&](const std::string& field) { read.metadata[field] = text.string(); });
    } else {
      demand(read.tensors.size() < kMostTensors, "it has too many tensors");
      read.tensors.push_back(tensor(text, name));
    }
  });
  text.end();
  return read;
}

NumberFormat format_of(const StoredTensor& tensor) {
  if (tensor.dtype == "F32") return NumberFormat::kFloat32;
  if (tensor.dtype == "F16") return NumberFormat::kFloat16;
  demand(tensor.dtype == "BF16", "a tensor has another dtype than F32, F16 and BF16");
  return NumberFormat::kBfloat16;
}

// Every tensor has the bytes of its shape, and together they fill the file, one after the other.
void check_places(const std::vector<StoredTensor>& tensors, size_t bytes) {
  std::vector<const StoredTensor*> sorted;
  for (const StoredTensor& one : tensors) {
    demand(one.shape[0] >= 1 && one.shape[0] <= kMostSize && one.shape[1] >= 1 && one.shape[1] <= kMostSize,
           "a tensor has a size outside its range");
    const int64_t needed = one.shape[0] * one.shape[1] * bytes_of(format_of(one));
    demand(one.offsets[1] - one.offsets[0] == needed, "a tensor's bytes do not fit its shape");
    sorted.push_back(&one);
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->offsets[0] < b->offsets[0]; });
  int64_t position = 0;
  for (const StoredTensor* one : sorted) {
    demand(one->offsets[0] == position, "its tensors overlap or leave gaps");
    position = one->offsets[1];
  }
  demand(position == static_cast<int64_t>(bytes), "it has other bytes than its tensors need");
}

// As Python's writer computes it: over the metadata without itself, the tensors' names, dtypes and shapes, and the data.
std::string checksum(const Header& read, const char* data) {
  std::string text = "[{";
  for (const auto& [name, value] : read.metadata) {
    if (name != "checksum") text += (text.size() > 2 ? ", " : "") + ascii_json(name) + ": " + ascii_json(value);
  }
  text += "}, [";
  for (const StoredTensor& one : read.tensors) {
    const std::string shape = std::to_string(one.shape[0]) + ", " + std::to_string(one.shape[1]);
    text += (&one == read.tensors.data() ? "[" : ", [") + ascii_json(one.name) + ", " + ascii_json(one.dtype) + ", [" +
            shape + "]]";
  }
  Sha256 sum;
  text += "]]";
  sum.add(text.data(), text.size());
  for (const StoredTensor& one : read.tensors) {
    sum.add(data + one.offsets[0], static_cast<size_t>(one.offsets[1] - one.offsets[0]));
  }
  return sum.hex();
}

AdapterModule module(JsonText& text) {
  AdapterModule read;
  std::set<std::string> known;
  text.object([&](const std::string& field) {
    known.insert(field);
    if (field == "name") {
      read.name = text.string();
    } else if (field == "key") {
      read.key = text.string();
    } else if (field == "rank") {
      read.rank = text.natural();
    } else if (field == "scale") {
      read.scale = text.number();
    } else {
      demand(field == "alpha", "a module has an unknown field");
      text.number();
    }
  });
  demand(known.size() == 5 && is_sha256(read.key), "a module lacks a field, or its key is not a sha256");
  return read;
}

std::vector<AdapterModule> modules(const std::string& written) {
  JsonText text(written, "its header");
  std::vector<AdapterModule> read;
  text.array([&] {
    demand(read.size() < kMostTensors, "it has too many modules");
    read.push_back(module(text));
  });
  text.end();
  return read;
}

// Give every module its two matrices; there is nothing else, and nothing twice.
void bind(std::vector<AdapterModule>& modules, const std::vector<StoredTensor>& tensors, const char* data) {
  std::map<std::string, const StoredTensor*> named;
  for (const StoredTensor& one : tensors) named[one.name] = &one;
  std::set<std::string> keys, names;
  for (AdapterModule& one : modules) {
    demand(keys.insert(one.key).second && names.insert(one.name).second, "a module occurs twice");
    const auto a = named.find(one.name + ".lora_A"), b = named.find(one.name + ".lora_B");
    demand(a != named.end() && b != named.end(), "its tensors are not those of its modules");
    demand(a->second->shape[0] == one.rank && b->second->shape[1] == one.rank, "a module's matrices have another rank");
    one.width = a->second->shape[1], one.rows = b->second->shape[0];
    one.a = {data + a->second->offsets[0], format_of(*a->second)};
    one.b = {data + b->second->offsets[0], format_of(*b->second)};
  }
  demand(tensors.size() == 2 * modules.size(), "its tensors are not those of its modules");
}

std::string taken(const Header& read, const char* name) {
  const auto found = read.metadata.find(name);
  demand(found != read.metadata.end(), std::string("its metadata lacks ") + name);
  return found->second;
}

AdapterFile parsed(std::vector<char> bytes) {
  uint64_t length = 0;
  demand(bytes.size() >= kLengthBytes, "it ends before its header");
  for (size_t i = kLengthBytes; i > 0; --i) length = length << 8 | static_cast<uint8_t>(bytes[i - 1]);
  demand(length <= kMostHeader && length <= bytes.size() - kLengthBytes, "its header is longer than it may be");
  const Header read = header({bytes.data() + kLengthBytes, static_cast<size_t>(length)});
  const char* data = bytes.data() + kLengthBytes + length;
  demand(taken(read, "format") == kFormat, "it is not an adapter that edgec adapter wrote");
  AdapterFile file{{}, taken(read, "base"), taken(read, "checksum"), modules(taken(read, "modules"))};
  taken(read, "trained_on");
  demand(read.metadata.size() == 5 && is_sha256(file.base), "its metadata is not that of an adapter");
  check_places(read.tensors, bytes.size() - kLengthBytes - static_cast<size_t>(length));
  demand(checksum(read, data) == file.digest, "its contents do not match its checksum");
  bind(file.modules, read.tensors, data);
  file.bytes = std::move(bytes);  // the modules' pointers stay as they are
  return file;
}

}  // namespace

AdapterFile read_adapter_file(const std::string& path) {
  try {
    return parsed(whole_file(path));
  } catch (const Failure& failure) {
    throw Failure(failure.status(), "the adapter cannot be used: " + path + ": " + failure.what());
  }
}

}  // namespace edgec::engine
