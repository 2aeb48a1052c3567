#include "utf8.h"

#include <algorithm>
#include <iterator>

namespace edgec::text {
namespace {

bool continues(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

}  // namespace

uint32_t first_character(std::string_view text, size_t& bytes) {
  bytes = std::min(std::max<size_t>(engine::utf8_length(text[0]), 1), text.size());
  const auto first = static_cast<uint8_t>(text[0]);
  uint32_t value = bytes == 1 ? first : first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) value = value << 6 | (static_cast<uint8_t>(text[i]) & 0x3f);
  return value;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (!engine::next_character(text)) return false;
  }
  return true;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return !continues(byte); }));
}

std::string_view without_characters(std::string_view text, size_t count) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues(text[at]) && count-- == 0) break;
  }
  return text.substr(at);
}

bool is_space(uint32_t character) {
  if (character >= 0x09 && character <= 0x0d) return true;
  if (character >= 0x1c && character <= 0x20) return true;
  if (character >= 0x2000 && character <= 0x200a) return true;
  constexpr uint32_t kOthers[] = {0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  return std::find(std::begin(kOthers), std::end(kOthers), character) != std::end(kOthers);
}

std::string_view without_leading_space(std::string_view text) {
  size_t bytes = 0;
  while (!text.empty() && is_space(first_character(text, bytes))) text.remove_prefix(bytes);
  return text;
}

std::string_view without_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1, bytes = 0;
    while (start > 0 && continues(text[start])) --start;
    if (!is_space(first_character(text.substr(start, end - start), bytes))) break;
    end = start;
  }
  return text.substr(0, end);
}

std::string_view stripped(std::string_view text) { return without_trailing_space(without_leading_space(text)); }

bool begins_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool take(std::string_view& text, std::string_view start) {
  if (!begins_with(text, start)) return false;
  text.remove_prefix(start.size());
  return true;
}

size_t overlap(std::string_view text, std::string_view mark) {
  size_t length = mark.empty() ? 0 : std::min(mark.size() - 1, text.size());
  while (length > 0 && !ends_with(text, mark.substr(0, length))) --length;
  return length;
}

}  // namespace edgec::text
