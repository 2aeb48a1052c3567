#include "python_calls.h"

#include <utility>

#include "python_tokens.h"
#include "utf8.h"

namespace edgec::text {
namespace {

constexpr size_t kLongest = 1 << 16;

// Reads calls and plain values; nothing is executed.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : tokens_(text) {}

  std::vector<WrittenCall> calls() {
    std::vector<WrittenCall> calls;
    if (tokens_.next() == '[') {
      listed('[', ']', [&] { calls.push_back(call()); });
    } else {
      calls.push_back(call());
    }
    if (tokens_.next() != '\0') PythonTokens::fail("something follows the calls");
    if (calls.empty()) PythonTokens::fail("the list of calls is empty");
    return calls;
  }

 private:
  WrittenCall call() {
    if (tokens_.next() == '(') {
      std::vector<WrittenCall> inside;
      const int commas = listed('(', ')', [&] { inside.push_back(call()); });
      if (inside.size() != 1 || commas > 0) PythonTokens::fail("a call begins with a name");
      return std::move(inside[0]);
    }
    WrittenCall call{tokens_.name(), {}};
    while (tokens_.taken('.')) call.name += "." + tokens_.name();
    if (tokens_.next() != '(') PythonTokens::fail("a call has a name and named arguments");
    listed('(', ')', [&] { read_argument(call.arguments); });
    return call;
  }

  void read_argument(JsonFields& arguments) {
    std::string name = tokens_.name();
    if (!tokens_.taken('=')) PythonTokens::fail("an argument has no name");
    if (find_field(arguments, name) != nullptr) PythonTokens::fail("two arguments have the same name");
    arguments.emplace_back(std::move(name), value());
  }

  JsonValue value() {
    const char first = tokens_.next();
    if (first == '[') return list();
    if (first == '(') return in_parentheses();
    if (first == '{') return dictionary();
    if (first == '-') return negative();
    if ((first >= '0' && first <= '9') || first == '.') return word_value(tokens_.number());
    if (tokens_.text_follows()) return text_value(tokens_.text());
    return word_value(json_word(tokens_.word()));
  }

  static std::string json_word(const std::string& word) {
    if (word == "True" || word == "true") return "true";
    if (word == "False" || word == "false") return "false";
    if (word == "None" || word == "null") return "null";
    PythonTokens::fail("an argument is not a plain value");
  }

  JsonValue list() {
    std::vector<JsonValue> items;
    listed('[', ']', [&] { items.push_back(value()); });
    return items_value(std::move(items));
  }

  // A tuple, or one value in parentheses.
  JsonValue in_parentheses() {
    std::vector<JsonValue> items;
    const int commas = listed('(', ')', [&] { items.push_back(value()); });
    if (items.size() == 1 && commas == 0) return std::move(items[0]);
    return items_value(std::move(items));
  }

  JsonValue dictionary() {
    JsonFields fields;
    listed('{', '}', [&] {
      std::string name = key();
      if (!tokens_.taken(':')) PythonTokens::fail("a colon is missing");
      set_field(fields, std::move(name), value());
    });
    return fields_value(std::move(fields));
  }

  // A key is a constant: no name like true, and nothing with a sign.
  std::string key() {
    const char first = tokens_.next();
    const bool named = first >= 'a' && first <= 'z' && !tokens_.text_follows();
    if (named || first == '-') PythonTokens::fail("a key is not a plain value");
    const JsonValue key = value();
    if (key.kind == JsonValue::Kind::kText) return key.text;
    if (key.kind != JsonValue::Kind::kWord) PythonTokens::fail("a key is not a plain value");
    return key.text == "true" ? "True" : key.text == "false" ? "False" : key.text == "null" ? "None" : key.text;
  }

  JsonValue negative() {
    tokens_.taken('-');
    const char first = tokens_.next();
    if (!(first >= '0' && first <= '9') && first != '.') PythonTokens::fail("an argument is not a plain value");
    return word_value("-" + tokens_.number());
  }

  // Calls item() for each; returns the number of commas.
  template <typename Item>
  int listed(char opens, char closes, Item&& item) {
    int commas = 0;
    tokens_.taken(opens);
    tokens_.open();
    while (tokens_.next() != closes) {
      item();
      if (tokens_.next() == closes) break;
      if (!tokens_.taken(',')) PythonTokens::fail(std::string(1, closes) + " is missing");
      ++commas;
    }
    tokens_.taken(closes);
    tokens_.close();
    return commas;
  }

  PythonTokens tokens_;
};

}  // namespace

std::vector<WrittenCall> PythonCalls::read(std::string_view text) const {
  const std::string_view whole = stripped(text);
  if (begins_with(whole, "[{") || begins_with(whole, "{")) return read_json_list(whole);
  if (count_characters(whole) > kLongest) throw NotACall("the call is longer than 65,536 characters");
  if (whole.find('\0') != std::string_view::npos) PythonTokens::fail("it holds a null character");
  return PythonReader(whole).calls();
}

}  // namespace edgec::text
