#include "gemma_calls.h"

#include <algorithm>

#include "utf8.h"

namespace edgec::text {
namespace {

constexpr int kDeepest = 64;
constexpr std::string_view kBrackets = ",{}[]";
constexpr std::string_view kKey = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

class GemmaReader {
 public:
  GemmaReader(std::string_view text, std::string_view quote) : rest_(text), quote_(quote) {}

  JsonValue value(int depth) {
    if (depth > kDeepest) throw NotACall("it is nested too deeply");
    if (taken(quote_)) return text_value(quoted());
    if (taken("{")) return fields(depth);
    if (taken("[")) return items(depth);
    const std::string_view scalar = rest_.substr(0, rest_.find_first_of(kBrackets));
    if (scalar.empty()) throw NotACall("a value is missing");
    rest_.remove_prefix(scalar.size());
    return parse_json(stripped(scalar));
  }

  bool ended() const { return stripped(rest_).empty(); }

 private:
  JsonValue fields(int depth) {
    JsonFields fields;
    for (bool first = true; !ends_list("}", first); first = false) {
      std::string name = key();
      set_field(fields, std::move(name), value(depth + 1));
    }
    return fields_value(std::move(fields));
  }

  JsonValue items(int depth) {
    std::vector<JsonValue> items;
    while (!ends_list("]", items.empty())) items.push_back(value(depth + 1));
    return items_value(std::move(items));
  }

  bool ends_list(const char* close, bool first) {
    if (taken(close)) return true;
    if (!first && !taken(",")) throw NotACall(std::string(close) + " is missing");
    return false;
  }

  std::string key() {
    std::string key;
    if (taken(quote_)) {
      key = quoted();
    } else {
      key = rest_.substr(0, rest_.find_first_not_of(kKey));
      rest_.remove_prefix(key.size());
    }
    if (key.empty() || !taken(":")) throw NotACall("a key is missing");
    return key;
  }

  std::string quoted() {
    const size_t end = rest_.find(quote_);
    if (end == std::string_view::npos) throw NotACall("a text does not end");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + quote_.size());
    return text;
  }

  bool taken(std::string_view wanted) {
    rest_ = without_leading_space(rest_);
    return take(rest_, wanted);
  }

  std::string_view rest_, quote_;
};

}  // namespace

std::vector<WrittenCall> GemmaCall::read(std::string_view text) const {
  std::string_view rest = stripped(text);
  const size_t brace = rest.find('{');
  if (brace == std::string_view::npos || !take(rest, "call:")) throw NotACall("a call is call:NAME{...}");
  const std::string_view name = rest.substr(0, rest.find('{'));
  GemmaReader reader(rest.substr(name.size()), quote_);
  JsonValue arguments = reader.value(0);
  if (!reader.ended()) throw NotACall("something follows the call");
  return {{std::string(stripped(name)), std::move(arguments.fields)}};
}

}  // namespace edgec::text
