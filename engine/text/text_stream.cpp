#include "text_stream.h"

#include <algorithm>
#include <utility>

#include "utf8.h"

namespace edgec::text {
namespace {

constexpr size_t kContextTokens = 8;
// U+FFFD, which a tokenizer writes for half a character.
constexpr std::string_view kPartial = "\xef\xbf\xbd";

// The last tokens of a prompt, as many as decode without broken characters: a window begins among them.
std::vector<int64_t> end_of(const int64_t* prompt, size_t count, const Decode& decode) {
  size_t taken = 3 * kContextTokens;
  while (taken < count && decode(prompt + count - taken, taken).find(kPartial) != std::string::npos) taken *= 2;
  taken = std::min(taken, count);
  return {prompt + (count - taken), prompt + count};
}

}  // namespace

TextStream::TextStream(Decode decode, const int64_t* prompt, size_t count)
    : decode_(std::move(decode)), window_(end_of(prompt, count, decode_)), shown_(window_.size()) {
  advance();
}

std::string TextStream::push(int64_t token) {
  window_.push_back(token);
  std::string text = pending();
  if (ends_with(text, kPartial)) return "";
  if (!text.empty()) advance();
  return text;
}

std::string TextStream::flush() {
  std::string text = pending();
  advance();
  return text;
}

std::string TextStream::decoded(size_t begin, size_t end) const { return decode_(window_.data() + begin, end - begin); }

std::string TextStream::pending() const {
  const size_t before = count_characters(decoded(0, shown_));
  return std::string(without_characters(decoded(0, window_.size()), before));
}

// Forget all but a few tokens; a window that began inside a character would decode to something else.
void TextStream::advance() {
  const std::string whole = decoded(0, window_.size());
  const size_t kept = std::max(kContextTokens, window_.size() - shown_);
  const size_t latest = window_.size() - std::min(kept, window_.size());
  const size_t earliest = latest - std::min(kContextTokens, latest);
  size_t start = latest;
  while (start > earliest && !ends_with(whole, decoded(start, window_.size()))) --start;
  if (!ends_with(whole, decoded(start, window_.size()))) start = latest;
  window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(start));
  shown_ = window_.size();
}

}  // namespace edgec::text
