#include "json_text.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "plain_failure.h"
#include "utf8.h"

namespace edgec::engine {
namespace {

constexpr std::string_view kSpaces = " \t\r\n", kDigits = "0123456789", kNumberLetters = "+-.0123456789eE";
constexpr size_t kMostNumberLetters = 40, kMostNaturalDigits = 16, kMostDepth = 64;
constexpr uint32_t kFirstHigh = kFirstSurrogate, kFirstLow = 0xdc00;
// What follows a backslash, and what it stands for.
constexpr std::string_view kEscapes = "\"\\/bfnrt", kEscaped = "\"\\/\b\f\n\r\t";

void append_escaped(std::string& text, uint32_t unit) {
  char written[12];
  std::snprintf(written, sizeof written, "\\u%04x", unit);
  text += written;
}

}  // namespace

void JsonText::fail(const std::string& does) const { throw Failure(status_, subject_ + " " + does); }

bool JsonText::begins(char letter) const {
  const size_t at = rest_.find_first_not_of(kSpaces);
  return at != std::string_view::npos && rest_[at] == letter;
}

bool JsonText::accept(char wanted) {
  if (!begins(wanted)) return false;
  rest_.remove_prefix(rest_.find_first_not_of(kSpaces) + 1);
  return true;
}

bool JsonText::accept_word(std::string_view word) {
  const size_t at = rest_.find_first_not_of(kSpaces);
  if (at == std::string_view::npos || rest_.substr(at, word.size()) != word) return false;
  rest_.remove_prefix(at + word.size());
  return true;
}

bool JsonText::null() { return accept_word("null"); }

bool JsonText::boolean() {
  const bool value = accept_word("true");
  if (!value && !accept_word("false")) refuse("something else where true or false belongs");
  return value;
}

void JsonText::expect(char wanted) {
  if (!accept(wanted)) refuse(std::string("something else where '") + wanted + "' belongs");
}

void JsonText::end() {
  if (rest_.find_first_not_of(kSpaces) != std::string_view::npos) refuse("more than its value");
}

void JsonText::skip_name() {
  string();
  expect(':');
}

void JsonText::skip_plain() {
  if (begins('"')) {
    string();
  } else if (begins('t') || begins('f')) {
    boolean();
  } else if (!null()) {
    number();
  }
}

void JsonText::skip() {
  std::string ends;  // of the objects and arrays that are open, the innermost last
  for (;;) {
    const char closes = accept('{') ? '}' : accept('[') ? ']' : '\0';
    if (closes == '\0') {
      skip_plain();
    } else if (!accept(closes)) {
      if (ends.size() == kMostDepth) refuse("too many values inside each other");
      ends += closes;
      if (closes == '}') skip_name();
      continue;
    }
    while (!ends.empty() && !accept(',')) {
      expect(ends.back());
      ends.pop_back();
    }
    if (ends.empty()) return;
    if (ends.back() == '}') skip_name();
  }
}

uint32_t JsonText::character() {
  const std::optional<uint32_t> next = next_character(rest_);
  if (!next) refuse("a text that is not UTF-8");
  return *next;
}

uint32_t JsonText::escaped_unit() {
  uint32_t unit = 0;
  if (rest_.size() < 4) refuse("a string without an end");
  for (const char letter : rest_.substr(0, 4)) {
    const auto byte = static_cast<uint8_t>(letter | 0x20);
    const bool digit = letter >= '0' && letter <= '9';
    if (!digit && !(byte >= 'a' && byte <= 'f')) refuse("an unknown escape");
    unit = unit << 4 | static_cast<uint32_t>(digit ? letter - '0' : byte - 'a' + 10);
  }
  rest_.remove_prefix(4);
  return unit;
}

uint32_t JsonText::escaped_character() {
  const uint32_t high = escaped_unit();
  if (!is_surrogate(high)) return high;
  if (high >= kFirstLow || rest_.substr(0, 2) != "\\u") refuse("half a character");
  rest_.remove_prefix(2);
  const uint32_t low = escaped_unit();
  if (low < kFirstLow || low >= kAfterSurrogates) refuse("half a character");
  return kBeyondUnits + ((high - kFirstHigh) << 10 | (low - kFirstLow));
}

std::string JsonText::string() {
  expect('"');
  std::string value;
  while (!rest_.empty() && rest_[0] != '"') {
    if (static_cast<uint8_t>(rest_[0]) < 0x20) refuse("a string with control characters");
    if (rest_[0] != '\\') {
      append_character(value, character());
      continue;
    }
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    const size_t known = kEscapes.find(kind);
    if (known == std::string_view::npos && kind != 'u') refuse("an unknown escape");
    rest_.remove_prefix(2);
    append_character(value, kind == 'u' ? escaped_character() : static_cast<uint8_t>(kEscaped[known]));
  }
  if (rest_.empty()) refuse("a string without an end");
  rest_.remove_prefix(1);
  return value;
}

std::string_view JsonText::number_text() {
  const size_t at = rest_.find_first_not_of(kSpaces);
  if (at == std::string_view::npos) refuse("something else where a number belongs");
  rest_.remove_prefix(at);
  const size_t end = rest_.find_first_not_of(kNumberLetters);
  const std::string_view text = rest_.substr(0, end == std::string_view::npos ? rest_.size() : end);
  const std::string_view whole = text.substr(!text.empty() && text[0] == '-');
  const bool begins = !whole.empty() && kDigits.find(whole[0]) != std::string_view::npos;
  const bool leads = whole.size() > 1 && whole[0] == '0' && kDigits.find(whole[1]) != std::string_view::npos;
  if (!begins || leads || text.size() > kMostNumberLetters) refuse("something else where a number belongs");
  rest_.remove_prefix(text.size());
  return text;
}

int64_t JsonText::natural(int64_t most) {
  const std::string_view text = number_text();
  int64_t value = text.size() > kMostNaturalDigits ? kMostNatural + 1 : 0;
  for (size_t i = 0; i < text.size() && value <= kMostNatural; ++i) {
    if (kDigits.find(text[i]) == std::string_view::npos) refuse("something else where a whole number belongs");
    value = value * 10 + (text[i] - '0');
  }
  if (value > most) refuse("a number that is too large");
  return value;
}

double JsonText::number() {
  const std::string text(number_text());
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value)) refuse("something else where a number belongs");
  return value;
}

std::string ascii_json(std::string_view text) {
  std::string written = "\"";
  while (!text.empty()) {
    const std::optional<uint32_t> next = next_character(text);
    if (!next) throw Failure(EDGEC_REFUSED, "a text is not UTF-8");
    const uint32_t character = *next;
    const size_t known = character < 0x80 ? kEscaped.find(static_cast<char>(character)) : std::string_view::npos;
    if (known != std::string_view::npos && character != '/') {
      written += {'\\', kEscapes[known]};
    } else if (character >= ' ' && character <= '~') {
      written += static_cast<char>(character);
    } else if (character < kBeyondUnits) {
      append_escaped(written, character);
    } else {
      append_escaped(written, kFirstHigh + ((character - kBeyondUnits) >> 10));
      append_escaped(written, kFirstLow + ((character - kBeyondUnits) & 0x3ff));
    }
  }
  return written + '"';
}

}  // namespace edgec::engine
