#include "structure_file.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "failure.h"

namespace edgec::engine {
namespace {

constexpr uint32_t kMostStates = 1u << 20, kMostEdges = 1u << 23, kMostCalls = 1u << 22;
constexpr uint32_t kMostTokens = 1u << 22, kMostEos = 1u << 10, kMostTokenBytes = 1u << 12;
constexpr size_t kMostFileBytes = size_t{1} << 28;
constexpr std::string_view kGrammarLetters = "EDGECGR1", kVocabularyLetters = "EDGECVO1";

// Reads little-endian numbers one after the other from a whole file.
class Reader {
 public:
  Reader(const std::string& path, std::string_view letters) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(0, std::ios::end);
    const std::streamoff size = file.tellg();
    if (!file || size < 0 || static_cast<size_t>(size) > kMostFileBytes) {
      throw Failure(EDGEC_REFUSED, "the structure's file cannot be read: " + path);
    }
    text_.resize(static_cast<size_t>(size));
    file.seekg(0);
    file.read(text_.data(), size);
    require(static_cast<bool>(file) && take(letters.size()) == letters);
  }

  // `count` bytes; throws where the file has fewer left.
  std::string_view take(size_t count) {
    require(count <= text_.size() - at_);
    at_ += count;
    return std::string_view(text_).substr(at_ - count, count);
  }

  uint32_t number(uint32_t most) {
    const std::string_view four = take(4);
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) {
      value = value << 8 | static_cast<uint8_t>(four[i]);
    }
    require(value <= most);
    return value;
  }

  void require(bool holds) const {
    if (!holds) {
      throw Failure(EDGEC_REFUSED, "the structure's file is damaged: " + path_);
    }
  }

  void finish() const { require(at_ == text_.size()); }

 private:
  std::string path_, text_;
  size_t at_ = 0;
};

// Numbers that do not fall and end at `last`, `count` of them.
std::vector<uint32_t> rising(Reader& file, uint32_t count, uint32_t last) {
  std::vector<uint32_t> ends;
  for (uint32_t before = 0; count > 0; --count) {
    ends.push_back(file.number(last));
    file.require(ends.back() >= before);
    before = ends.back();
  }
  file.require((ends.empty() ? 0 : ends.back()) == last);
  return ends;
}

}  // namespace

StructureGrammar::StructureGrammar(const std::string& path) {
  Reader file(path, kGrammarLetters);
  const uint32_t states = file.number(kMostStates), edges = file.number(kMostEdges), calls = file.number(kMostCalls);
  file.require(states > 0);
  edge_ends_ = rising(file, states, edges);
  call_ends_ = rising(file, states, calls);
  for (const char flag : file.take(states)) {
    file.require(flag == 0 || flag == 1);
    final_.push_back(static_cast<uint8_t>(flag));
  }
  for (uint32_t state = 0, edge = 0; state < states; ++state) {
    for (int before = -1; edge < edge_ends_[state]; ++edge) {
      const std::string_view range = file.take(2);
      const auto low = static_cast<uint8_t>(range[0]), high = static_cast<uint8_t>(range[1]);
      file.require(low > before && low <= high);
      edges_.push_back({low, high, file.number(states - 1)});
      before = high;
    }
  }
  for (uint32_t call = 0; call < calls; ++call) {
    const uint32_t callee = file.number(states - 1);
    calls_.push_back({callee, file.number(states - 1)});
  }
  file.finish();
}

TokenBytes::TokenBytes(const std::string& path) {
  Reader file(path, kVocabularyLetters);
  const uint32_t tokens = file.number(kMostTokens), bytes = file.number(kMostFileBytes), eos = file.number(kMostEos);
  file.require(tokens > 0);
  for (uint32_t i = 0; i < eos; ++i) {
    eos_.push_back(file.number(tokens - 1));
    file.require(i == 0 || eos_[i] > eos_[i - 1]);
  }
  ends_ = rising(file, tokens, bytes);
  bytes_ = file.take(bytes);
  file.finish();
  for (uint32_t token = 0; token < tokens; ++token) {
    file.require(text(token).size() <= kMostTokenBytes && (text(token).empty() || !is_eos(token)));
  }
  sort();
}

std::string_view TokenBytes::text(uint32_t token) const {
  const size_t begin = token == 0 ? 0 : ends_[token - 1];
  return std::string_view(bytes_).substr(begin, ends_[token] - begin);
}

bool TokenBytes::is_eos(uint32_t token) const {
  return std::binary_search(eos_.begin(), eos_.end(), token);
}

void TokenBytes::sort() {
  for (uint32_t token = 0; token < size(); ++token) {
    if (!text(token).empty()) {
      sorted_.push_back(token);
    }
    if (text(token).size() == 1) {
      single_[static_cast<uint8_t>(text(token)[0])] = 1;
    }
  }
  std::sort(sorted_.begin(), sorted_.end(), [this](uint32_t one, uint32_t other) { return text(one) < text(other); });
  for (size_t place = 0; place < sorted_.size(); ++place) {
    const std::string_view own = text(sorted_[place]), before = place == 0 ? "" : text(sorted_[place - 1]);
    const size_t most = std::min(own.size(), before.size());
    const auto differs = std::mismatch(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(most), before.begin());
    shared_.push_back(static_cast<uint32_t>(differs.first - own.begin()));
  }
}

}  // namespace edgec::engine
