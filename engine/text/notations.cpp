#include "notations.h"

#include "core/json_text.h"

namespace edgec::text {
namespace {

using engine::JsonText;

std::vector<std::string> read_texts(JsonText& json) {
  std::vector<std::string> texts;
  json.array([&] { texts.push_back(json.string()); });
  return texts;
}

std::vector<int64_t> read_numbers(JsonText& json) {
  std::vector<int64_t> numbers;
  json.array([&] { numbers.push_back(json.natural()); });
  return numbers;
}

void require_mark(const std::string& mark, JsonText& json) {
  if (mark.empty()) json.refuse("a marker that is empty");
}

ThinkingNotation read_thinking(JsonText& json) {
  ThinkingNotation notation;
  json.object([&](const std::string& name) {
    if (name == "open") return void(notation.open = json.string());
    if (name == "close") return void(notation.close = json.string());
    if (name == "open_tokens") return void(notation.open_tokens = read_numbers(json));
    if (name == "close_tokens") return void(notation.close_tokens = read_numbers(json));
    json.refuse("an unknown field of reasoning");
  });
  require_mark(notation.open, json);
  require_mark(notation.close, json);
  return notation;
}

CallWriting read_writing(JsonText& json) {
  CallWriting writing;
  json.object([&](const std::string& name) {
    if (name == "kind") return void(writing.kind = json.string());
    if (name == "opened") return void(writing.opened = json.string());
    if (name == "between") return void(writing.between = json.string());
    if (name == "skipped") return void(writing.skipped = json.string());
    if (name == "quote") return void(writing.quote = json.string());
    json.refuse("an unknown field of how calls are written");
  });
  return writing;
}

CallNotation read_calls(JsonText& json) {
  CallNotation notation;
  json.object([&](const std::string& name) {
    if (name == "open") return void(notation.open = json.string());
    if (name == "close") return void(notation.close = json.string());
    if (name == "before") return void(notation.before = json.string());
    if (name == "alone") return void(notation.alone = json.boolean());
    if (name == "many") return void(notation.many = json.boolean());
    if (name == "writing") return void(notation.body = body_of(read_writing(json)));
    json.refuse("an unknown field of calls");
  });
  require_mark(notation.open, json);
  if (notation.body == nullptr) json.refuse("calls without how they are written");
  return notation;
}

void read_tools(JsonText& json, Notations& notations) {
  json.object([&](const std::string& tool) {
    const std::vector<std::string> texts = read_texts(json);
    notations.tools[tool] = {texts.begin(), texts.end()};
  });
}

void read_fact(JsonText& json, const std::string& name, Notations& notations) {
  if (name == "thinking") return void(notations.thinking = read_thinking(json));
  if (name == "calls") return void(notations.calls = read_calls(json));
  if (name == "dropped") return void(notations.dropped = read_texts(json));
  if (name == "tools") return read_tools(json, notations);
  json.refuse("an unknown fact");
}

}  // namespace

Notations read_notations(std::string_view facts) {
  JsonText json(facts, "the JSON of the notations");
  Notations notations;
  json.object([&](const std::string& name) { read_fact(json, name, notations); });
  json.end();
  for (const std::string& mark : notations.dropped) require_mark(mark, json);
  return notations;
}

}  // namespace edgec::text
