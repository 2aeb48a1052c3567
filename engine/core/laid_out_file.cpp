#include "laid_out_file.h"

#include <cstdio>
#include <cstring>
#include <memory>

#include "failure.h"

namespace edgec::engine {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kRoom = 64 << 20;

struct Entry {
  int64_t source, bytes, offset;
};

struct Footer {
  int64_t entries, artifact_bytes;
  char mark[4];
  int32_t version;
};

constexpr Footer kFooter{0, 0, {'E', 'D', 'G', 'C'}, 1};

int64_t aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// X.packed -> X.laid.packed: found by whoever cleans up packed weights.
std::string beside(const std::string& packed_path) {
  constexpr char kEnding[] = ".packed";
  const size_t length = packed_path.size() - (sizeof kEnding - 1);
  const bool usual = packed_path.size() > sizeof kEnding && packed_path.compare(length, std::string::npos, kEnding) == 0;
  return (usual ? packed_path.substr(0, length) : packed_path) + ".laid" + kEnding;
}

}  // namespace

LaidOutFile::LaidOutFile(const std::string& packed_path, const MappedFile& artifact)
    : artifact_(artifact), path_(packed_path.empty() ? "" : beside(packed_path)) {}

LaidOutFile::~LaidOutFile() = default;

const uint8_t* LaidOutFile::find(const uint8_t* source, int64_t bytes) {
  if (!path_.empty() && !file_) open();
  const std::optional<int64_t> offset = artifact_.offset_of(source);
  const auto kept = offset ? kept_.find(*offset) : kept_.end();
  return kept != kept_.end() && kept->second.bytes == bytes ? kept->second.data : nullptr;
}

uint8_t* LaidOutFile::add(const uint8_t* source, int64_t bytes) {
  uint8_t* data = memory_.emplace_back(bytes).data();
  const std::optional<int64_t> offset = artifact_.offset_of(source);
  if (data == nullptr || !offset) return data;
  kept_[*offset] = {data, bytes};
  added_ = true;
  return data;
}

// Another process that is writing the file is waited for.
void LaidOutFile::open() {
  file_.emplace(path_);
  if (!file_->usable() || !file_->intact()) return;
  try {
    mapped_.emplace(path_);
  } catch (const Failure&) {
    return;
  }
  if (!read_index()) {
    kept_.clear();
    return;
  }
  origin_ = EDGEC_PACKED_MAPPED;
  bytes_ = static_cast<int64_t>(mapped_->size().get());
}

bool LaidOutFile::read_index() {
  const auto size = static_cast<int64_t>(mapped_->size().get());
  const uint8_t* begin = mapped_->data();
  Footer footer{};
  if (size < static_cast<int64_t>(sizeof footer)) return false;
  const int64_t end = size - static_cast<int64_t>(sizeof footer);
  std::memcpy(&footer, begin + end, sizeof footer);
  const bool ours = std::memcmp(footer.mark, kFooter.mark, sizeof footer.mark) == 0 &&
                    footer.version == kFooter.version &&
                    footer.artifact_bytes == static_cast<int64_t>(artifact_.size().get());
  constexpr auto kEntry = static_cast<int64_t>(sizeof(Entry));
  if (!ours || footer.entries < 1 || footer.entries > end / kEntry) return false;
  const int64_t matrices = end - footer.entries * kEntry;
  for (int64_t i = 0; i < footer.entries; i++) {
    Entry entry{};
    std::memcpy(&entry, begin + matrices + i * kEntry, sizeof entry);
    const bool inside = entry.offset >= 0 && entry.offset % kAlign == 0 && entry.bytes > 0 &&
                        entry.offset <= matrices && entry.bytes <= matrices - entry.offset;
    if (!inside) return false;
    kept_[entry.source] = {begin + entry.offset, entry.bytes};
  }
  return true;
}

void LaidOutFile::finish() {
  if (added_ && file_ && file_->usable()) {
    int64_t total = kRoom;
    for (const auto& [source, kept] : kept_) total += aligned(kept.bytes);
    if (file_->has_room(total) && write() && file_->keep_aside()) {
      origin_ = EDGEC_PACKED_WRITTEN;
      bytes_ = file_->bytes();
    } else {
      file_->drop_aside();
    }
  }
  added_ = false;
  file_.reset();
  path_.clear();
}

// Through the C library, not a mapping: a full disk is an error here, not a signal.
bool LaidOutFile::write() const {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(file_->aside().c_str(), "wb"), std::fclose);
  if (file == nullptr) return false;
  constexpr char kZeros[kAlign] = {};
  std::vector<Entry> index;
  bool written = true;
  int64_t offset = 0;
  for (const auto& [source, kept] : kept_) {
    const auto gap = static_cast<size_t>(aligned(kept.bytes) - kept.bytes);
    written = written && std::fwrite(kept.data, 1, static_cast<size_t>(kept.bytes), file.get()) == size_t(kept.bytes) &&
              std::fwrite(kZeros, 1, gap, file.get()) == gap;
    index.push_back({source, kept.bytes, offset});
    offset += aligned(kept.bytes);
  }
  Footer footer = kFooter;
  footer.entries = static_cast<int64_t>(index.size());
  footer.artifact_bytes = static_cast<int64_t>(artifact_.size().get());
  return written && std::fwrite(index.data(), sizeof(Entry), index.size(), file.get()) == index.size() &&
         std::fwrite(&footer, sizeof footer, 1, file.get()) == 1 && std::fflush(file.get()) == 0;
}

}  // namespace edgec::engine
