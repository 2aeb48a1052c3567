// Characters in UTF-8: read from texts that come from outside, and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace edgec::engine {

constexpr uint32_t kFirstSurrogate = 0xd800, kAfterSurrogates = 0xe000, kBeyondUnits = 0x10000;
constexpr uint32_t kMostCharacter = 0x10ffff;

inline bool is_surrogate(uint32_t unit) { return unit >= kFirstSurrogate && unit < kAfterSurrogates; }

// The bytes of the character that begins with `byte`; 0 where none does.
inline size_t utf8_length(char byte) {
  const auto first = static_cast<uint8_t>(byte);
  return first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
}

// The character at the beginning of a text that is not empty, which is shortened by it; none where it is not UTF-8.
inline std::optional<uint32_t> next_character(std::string_view& text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = utf8_length(text[0]);
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, kBeyondUnits};
  if (length == 0 || text.size() < length) return std::nullopt;
  uint32_t value = length == 1 ? first : first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte >> 6 != 2) return std::nullopt;
    value = value << 6 | (byte & 0x3f);
  }
  if (value < kLeast[length] || value > kMostCharacter || is_surrogate(value)) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

inline void append_character(std::string& text, uint32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character);
    return;
  }
  const int more = character < 0x800 ? 1 : character < kBeyondUnits ? 2 : 3;
  constexpr uint32_t kMarks[] = {0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(kMarks[more] | character >> (6 * more));
  for (int left = more - 1; left >= 0; --left) text += static_cast<char>(0x80 | (character >> (6 * left) & 0x3f));
}

}  // namespace edgec::engine
