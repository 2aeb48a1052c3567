#include "python_tokens.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "json_value.h"
#include "name_characters.h"
#include "utf8.h"

namespace edgec::text {
namespace {

constexpr int kDeepest = 200;
constexpr size_t kMostDigits = 4300;
constexpr std::string_view kKeywords[] = {
    "False", "None",   "True", "and",      "as",   "assert", "async",  "await", "break",   "class", "continue", "def",
    "del",   "elif",   "else", "except",   "finally", "for", "from",   "global", "if",     "import", "in",      "is",
    "lambda", "nonlocal", "not", "or",     "pass", "raise",  "return", "try",   "while",   "with",  "yield"};
// What follows a backslash, and what it stands for.
constexpr std::string_view kEscapes = "\\'\"abfnrtv", kEscaped = "\\'\"\a\b\f\n\r\t\v";

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) { return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'); }

// How many bytes of a name the text begins with; characters that Python would write otherwise (NFKC) are none of it.
size_t name_bytes(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t bytes = 0;
    const uint32_t character = first_character(text.substr(end), bytes);
    const auto letter = static_cast<char>(character);
    const bool ascii = character < 0x80 && (is_letter(letter) || letter == '_' || (is_digit(letter) && end > 0));
    if (!ascii && !is_name_character(character)) break;
    end += bytes;
  }
  return end;
}

}  // namespace

void PythonTokens::fail(const std::string& why) { throw NotACall("it is not a list of calls: " + why); }

char PythonTokens::next() {
  while (place_ < text_.size()) {
    const char letter = text_[place_];
    const size_t line = line_end(place_), escaped = letter == '\\' ? line_end(place_ + 1) : 0;
    if (letter == ' ' || letter == '\t' || letter == '\f') {
      ++place_;
    } else if (line > 0 && depth_ > 0) {
      place_ += line;
    } else if (escaped > 0) {
      place_ += 1 + escaped;
    } else if (letter == '#') {
      place_ = std::min(text_.find_first_of("\r\n", place_), text_.size());
    } else {
      return letter;
    }
  }
  return '\0';
}

// The bytes of the end of a line at a place; 0 where none is.
size_t PythonTokens::line_end(size_t place) const {
  if (at(place) == '\n') return 1;
  if (at(place) != '\r') return 0;
  return at(place + 1) == '\n' ? 2 : 1;
}

bool PythonTokens::taken(char mark) {
  next();
  return passed(mark);
}

bool PythonTokens::passed(char mark) {
  if (place_ >= text_.size() || text_[place_] != mark) return false;
  ++place_;
  return true;
}

void PythonTokens::open() {
  if (++depth_ > kDeepest) fail("it is nested too deeply");
}

std::string PythonTokens::word() {
  next();
  const std::string_view rest = text_.substr(place_);
  const size_t bytes = name_bytes(rest);
  if (bytes == 0) fail("a name is missing");
  place_ += bytes;
  return std::string(rest.substr(0, bytes));
}

std::string PythonTokens::name() {
  std::string name = word();
  const bool keyword = std::find(std::begin(kKeywords), std::end(kKeywords), name) != std::end(kKeywords);
  if (keyword) fail(name + " is not a name");
  return name;
}

std::string PythonTokens::number() {
  const auto kind = static_cast<char>(at(place_ + 1) | 0x20);
  const unsigned base = at(place_) != '0' ? 0 : kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  std::string number = base == 0 ? plain_number() : number_of_base(base);
  const char after = at(place_);
  const bool goes_on = is_letter(after) || is_digit(after) || after == '_' || after == '.';
  if (goes_on || static_cast<uint8_t>(after) >= 0x80) fail("a number is not one");
  return number;
}

std::string PythonTokens::number_of_base(unsigned base) {
  place_ += 2;
  passed('_');
  const size_t begin = place_;
  while (is_letter(at(place_)) || is_digit(at(place_)) || at(place_) == '_') ++place_;
  std::string digits(text_.substr(begin, place_ - begin));
  const bool lines = digits.find("__") != std::string::npos || (!digits.empty() && digits.front() == '_');
  if (lines || (!digits.empty() && digits.back() == '_')) fail("a number is not one");
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [read, error] = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (error != std::errc() || read != end) fail("a number is too large, or not one");
  return std::to_string(value);
}

std::string PythonTokens::plain_number() {
  const std::string whole = digits();
  const bool has_point = passed('.');
  const std::string part = has_point ? digits() : "";
  if (whole.empty() && part.empty()) fail("a number is not one");
  const std::string short_form = whole.substr(std::min(whole.find_first_not_of('0'), whole.size()));
  const std::string kept = short_form.empty() ? "0" : short_form;
  if (passed('e') || passed('E')) {
    const std::string sign = passed('-') ? "-" : (passed('+'), "");
    const std::string power = digits();
    if (power.empty()) fail("a number is not one");
    if (!is_finite_number(whole + part, sign + power, part.size())) fail("a number is too large");
    return kept + "." + (part.empty() ? "0" : part) + "e" + sign + power;
  }
  if (has_point) {
    if (!is_finite_number(whole + part, "", part.size())) fail("a number is too large");
    return kept + "." + (part.empty() ? "0" : part);
  }
  if (whole.size() > kMostDigits) fail("a number is too large");
  if (kept != whole && kept != "0") fail("a number begins with 0");
  return kept;
}

// Digits, or none, without the lines between them.
std::string PythonTokens::digits() {
  const size_t begin = place_;
  while (is_digit(at(place_)) || at(place_) == '_') ++place_;
  std::string taken(text_.substr(begin, place_ - begin));
  if (taken.empty()) return taken;
  const bool outside = taken.front() == '_' || taken.back() == '_' || taken.find("__") != std::string::npos;
  if (outside) fail("a number is not one");
  taken.erase(std::remove(taken.begin(), taken.end(), '_'), taken.end());
  return taken;
}

// The prefix and the marks of the text that begins here.
PythonTokens::Quote PythonTokens::quote() const {
  const std::string_view rest = text_.substr(place_);
  size_t letters = 0;
  while (letters < 2 && letters < rest.size() && is_letter(rest[letters])) ++letters;
  const std::string_view after = rest.substr(letters);
  for (const std::string_view marks : {"'''", "\"\"\"", "'", "\""}) {
    if (begins_with(after, marks)) return {rest.substr(0, letters), marks};
  }
  return {};
}

bool PythonTokens::text_follows() {
  next();
  return !quote().marks.empty();
}

std::string PythonTokens::text() {
  std::string out;
  do {
    out += one_text();
  } while (text_follows());
  if (!is_utf8(out)) fail("a text holds half a character");
  return out;
}

std::string PythonTokens::one_text() {
  const auto [prefix, marks] = quote();
  const bool raw = prefix == "r" || prefix == "R";
  if (!prefix.empty() && !raw && prefix != "u" && prefix != "U") fail("an argument is not a plain text");
  place_ += prefix.size() + marks.size();
  std::string out;
  while (!begins_with(text_.substr(place_), marks)) {
    if (at(place_) == '\0' || (line_end(place_) > 0 && marks.size() == 1)) fail("a text does not end");
    write_character(out, raw);
  }
  place_ += marks.size();
  return out;
}

// Write what stands for one character of a text; of a longer one the first byte, which the others follow as they are.
void PythonTokens::write_character(std::string& out, bool raw) {
  const bool escapes = passed('\\');
  if (escapes && !raw) return write_escape(out);
  if (escapes) out += '\\';
  const size_t line = line_end(place_);
  if (line > 0) {
    out += '\n';
  } else if (place_ < text_.size()) {
    out += text_[place_];
  }
  place_ = std::min(place_ + std::max<size_t>(line, 1), text_.size());
}

void PythonTokens::write_escape(std::string& out) {
  if (const size_t line = line_end(place_); line > 0) {
    place_ += line;
    return;
  }
  uint32_t octal = 0;
  size_t digits = 0;
  for (; digits < 3 && at(place_) >= '0' && at(place_) <= '7'; ++digits) {
    octal = octal * 8 + static_cast<uint32_t>(text_[place_++] - '0');
  }
  if (digits > 0) return append_character(out, octal);
  const char mark = at(place_);
  if (place_++ >= text_.size()) fail("a text does not end");
  if (mark == 'N') fail("a character is given by its name");
  if (mark == 'x' || mark == 'u' || mark == 'U') return write_point(mark == 'x' ? 2 : mark == 'u' ? 4 : 8, out);
  const size_t known = kEscapes.find(mark);
  // Python keeps the backslash of an escape that it does not know.
  if (known == std::string_view::npos) out += '\\';
  out += known == std::string_view::npos ? mark : kEscaped[known];
}

void PythonTokens::write_point(size_t digits, std::string& out) {
  const std::string_view written = text_.substr(place_, digits);
  uint32_t point = 0;
  const char* end = written.data() + written.size();
  const auto [read, error] = std::from_chars(written.data(), end, point, 16);
  const bool whole = written.size() == digits && error == std::errc() && read == end;
  if (!whole || point > kMostCharacter) fail("an escape is not one");
  append_character(out, point);
  place_ += digits;
}

}  // namespace edgec::text
