#include "json_value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/json_text.h"
#include "core/plain_failure.h"
#include "utf8.h"

namespace edgec::text {
namespace {

using Kind = JsonValue::Kind;

constexpr int kDeepest = 200;
constexpr size_t kMostDigits = 40, kMostExponentDigits = 9;
constexpr std::string_view kSpaces = " \t\n\r", kDigits = "0123456789";

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : rest_(text) {}

  JsonValue whole() {
    JsonValue read = value(0);
    skip();
    if (!rest_.empty()) throw NotACall("something follows the value");
    return read;
  }

 private:
  JsonValue value(int depth) {
    skip();
    const char first = rest_.empty() ? '\0' : rest_[0];
    if (first == '"') return text_value(string());
    if (first == '{') return fields_value(fields(depth + 1));
    if (first == '[') return items_value(items(depth + 1));
    return word_value(word());
  }

  JsonFields fields(int depth) {
    JsonFields fields;
    rest_.remove_prefix(1);
    if (taken("}")) return fields;
    check_depth(depth);
    do {
      skip();
      if (rest_.empty() || rest_[0] != '"') throw NotACall("a key is missing");
      std::string name = string();
      if (!taken(":")) throw NotACall("a colon is missing");
      set_field(fields, std::move(name), value(depth));
    } while (taken(","));
    if (!taken("}")) throw NotACall("} is missing");
    return fields;
  }

  std::vector<JsonValue> items(int depth) {
    std::vector<JsonValue> items;
    rest_.remove_prefix(1);
    if (taken("]")) return items;
    check_depth(depth);
    do {
      items.push_back(value(depth));
    } while (taken(","));
    if (!taken("]")) throw NotACall("] is missing");
    return items;
  }

  static void check_depth(int depth) {
    if (depth > kDeepest) throw NotACall("it is nested too deeply");
  }

  std::string word() {
    for (const char* word : {"true", "false", "null"}) {
      if (take(rest_, word)) return word;
    }
    return number();
  }

  std::string number() {
    const std::string_view begin = rest_;
    take(rest_, "-");
    const std::string_view whole = digits();
    if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) throw NotACall("a value is missing");
    const std::string_view part = take(rest_, ".") ? some_digits() : "";
    std::string exponent;
    if (take(rest_, "e") || take(rest_, "E")) {
      exponent = take(rest_, "-") ? "-" : "";
      if (exponent.empty()) take(rest_, "+");
      exponent += some_digits();
    }
    const bool is_whole = part.empty() && exponent.empty();
    if (is_whole && whole.size() > kMostDigits) throw NotACall("a number has more than 40 digits");
    if (!is_finite_number(std::string(whole).append(part), exponent, part.size())) {
      throw NotACall("a number is too large");
    }
    return std::string(begin.substr(0, begin.size() - rest_.size()));
  }

  std::string_view digits() {
    const size_t end = std::min(rest_.find_first_not_of(kDigits), rest_.size());
    const std::string_view digits = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return digits;
  }

  std::string_view some_digits() {
    const std::string_view taken = digits();
    if (taken.empty()) throw NotACall("a number is not one");
    return taken;
  }

  // The end of a string is found here, its value by the reader of facts.
  std::string string() {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) throw NotACall("a text does not end");
    const std::string_view written = rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
    try {
      return engine::JsonText(written, "a text").string();
    } catch (const engine::Failure& failure) {
      throw NotACall(failure.what());
    }
  }

  bool taken(std::string_view wanted) {
    skip();
    return take(rest_, wanted);
  }

  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpaces), rest_.size())); }

  std::string_view rest_;
};

template <typename Each, typename Write>
std::string joined(char opens, char closes, const Each& all, Write&& write) {
  std::string text(1, opens);
  for (const auto& each : all) text.append(text.size() > 1 ? ", " : "").append(write(each));
  return text + closes;
}

}  // namespace

JsonValue text_value(std::string text) { return {Kind::kText, std::move(text), {}, {}}; }
JsonValue word_value(std::string word) { return {Kind::kWord, std::move(word), {}, {}}; }
JsonValue items_value(std::vector<JsonValue> items) { return {Kind::kItems, "", std::move(items), {}}; }
JsonValue fields_value(JsonFields fields) { return {Kind::kFields, "", {}, std::move(fields)}; }

const JsonValue* find_field(const JsonFields& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

void set_field(JsonFields& fields, std::string name, JsonValue value) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.first == name; });
  if (found == fields.end()) {
    fields.emplace_back(std::move(name), std::move(value));
  } else {
    found->second = std::move(value);
  }
}

std::string json_of(const JsonValue& value) {
  switch (value.kind) {
    case Kind::kText:
      return engine::ascii_json(value.text);
    case Kind::kItems:
      return joined('[', ']', value.items, json_of);
    case Kind::kFields:
      return joined('{', '}', value.fields, [](const auto& each) {
        return engine::ascii_json(each.first) + ": " + json_of(each.second);
      });
    default:
      return value.text;
  }
}

JsonValue parse_json(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  take(text, kByteOrderMark);
  return JsonReader(text).whole();
}

// Without a point, which strtod reads by the process's language.
bool is_finite_number(const std::string& digits, std::string_view exponent, size_t after_point) {
  const bool negative = begins_with(exponent, "-");
  exponent.remove_prefix(negative ? 1 : 0);
  exponent.remove_prefix(std::min(exponent.find_first_not_of('0'), exponent.size()));
  const std::string shown(exponent.substr(0, kMostExponentDigits));
  const bool clipped = exponent.size() > kMostExponentDigits;
  const long power = clipped ? 999'999'999 : std::strtol(shown.empty() ? "0" : shown.c_str(), nullptr, 10);
  const long shifted = (negative ? -power : power) - static_cast<long>(after_point);
  return std::isfinite(std::strtod((digits + "e" + std::to_string(shifted)).c_str(), nullptr));
}

}  // namespace edgec::text
