// Tokens to text, one at a time, without broken characters or lost spaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace edgec::text {

// The text of token ids.
using Decode = std::function<std::string(const int64_t* tokens, size_t count)>;

// A few tokens before the new one are decoded with and without it, and the difference is the new text. That keeps the
// space that a decoder strips at the start of a text; a character of several tokens appears with its last byte.
class TextStream {
 public:
  // Begin after a prompt, whose end decides whether a leading space belongs to the text.
  TextStream(Decode decode, const int64_t* prompt, size_t count);

  // The text that `token` completes; empty while a character is incomplete.
  std::string push(int64_t token);
  // The text of an incomplete last character.
  std::string flush();

 private:
  std::string decoded(size_t begin, size_t end) const;
  std::string pending() const;
  void advance();

  Decode decode_;
  std::vector<int64_t> window_;
  size_t shown_ = 0;
};

}  // namespace edgec::text
