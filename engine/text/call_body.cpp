#include "call_body.h"

#include <utility>

#include "core/plain_failure.h"
#include "gemma_calls.h"
#include "python_calls.h"
#include "utf8.h"

namespace edgec::text {
namespace {

using Kind = JsonValue::Kind;

WrittenCall call_of(const JsonValue& value) {
  if (value.kind != Kind::kFields) throw NotACall("a call is an object");
  const JsonValue* function = find_field(value.fields, "function");
  const bool wrapped = function != nullptr && function->kind == Kind::kFields;
  const JsonFields& fields = wrapped ? function->fields : value.fields;
  const JsonValue* name = find_field(fields, "name");
  const JsonValue* arguments = find_field(fields, "arguments");
  if (arguments == nullptr) arguments = find_field(fields, "parameters");
  return checked_call(name != nullptr && name->kind == Kind::kText ? name->text : "", arguments);
}

// What stands before the first `mark`, which `rest` loses with it; all of it where there is none.
std::string_view before(std::string_view& rest, std::string_view mark, bool& found) {
  const size_t at = rest.find(mark);
  found = at != std::string_view::npos;
  const std::string_view head = rest.substr(0, at);
  rest = found ? rest.substr(at + mark.size()) : "";
  return head;
}

// `{"name": NAME, "arguments": {...}}`, of which the opening marker has the beginning already.
class JsonCall : public CallBody {
 public:
  explicit JsonCall(std::string opened) : opened_(std::move(opened)) {}

  std::vector<WrittenCall> read(std::string_view text) const override {
    return {call_of(parse_json(opened_ + std::string(text)))};
  }

 private:
  std::string opened_;
};

class JsonList : public CallBody {
 public:
  std::vector<WrittenCall> read(std::string_view text) const override { return read_json_list(text); }
};

// NAME, a separator, and the arguments as an object; what may be skipped is not part of the name.
class NamedJson : public CallBody {
 public:
  NamedJson(std::string between, std::string skipped) : between_(std::move(between)), skipped_(std::move(skipped)) {}

  std::vector<WrittenCall> read(std::string_view text) const override {
    bool found = false;
    std::string_view name = before(text, between_, found);
    if (!found) throw NotACall(std::string(stripped(between_)) + " is missing after the name");
    if (!skipped_.empty()) name = before(name, skipped_, found);
    const JsonValue arguments = parse_json(text);
    return {checked_call(std::string(stripped(name)), &arguments)};
  }

 private:
  std::string between_, skipped_;
};

// `<function=NAME>`, and `<parameter=KEY>` with each value; texts stand as they are, other values as JSON.
class TaggedCall : public CallBody {
 public:
  std::vector<WrittenCall> read(std::string_view text) const override {
    std::string_view rest = stripped(text);
    bool ends = take(rest, "<function=");
    const std::string_view name = ends ? before(rest, ">", ends) : "";
    if (!ends) throw NotACall("a call begins with <function=NAME>");
    JsonFields arguments;
    for (rest = without_leading_space(rest); !begins_with(rest, "</function>"); rest = without_leading_space(rest)) {
      read_argument(rest, arguments);
    }
    return {{std::string(stripped(name)), std::move(arguments)}};
  }

  JsonFields typed(JsonFields arguments, const std::set<std::string>& texts) const override {
    for (auto& [name, value] : arguments) {
      if (texts.count(name) == 0) value = parse_json(as_json(value.text));
    }
    return arguments;
  }

 private:
  static void read_argument(std::string_view& rest, JsonFields& arguments) {
    bool named = false, ended = false;
    take(rest, "<parameter=");
    const std::string_view name = before(rest, ">", named);
    std::string_view value = before(rest, "</parameter>", ended);
    if (!named || !ended) throw NotACall("a parameter does not end");
    take(value, "\n");
    if (ends_with(value, "\n")) value.remove_suffix(1);
    set_field(arguments, std::string(stripped(name)), text_value(std::string(value)));
  }

  // Qwen 3.5's template shows these in earlier calls as Python writes them, and the model after it.
  static std::string_view as_json(std::string_view value) {
    return value == "True" ? "true" : value == "False" ? "false" : value == "None" ? "null" : value;
  }
};

}  // namespace

WrittenCall checked_call(std::string name, const JsonValue* arguments) {
  if (name.empty()) throw NotACall("the call has no name");
  if (arguments == nullptr || arguments->kind != Kind::kFields) {
    throw NotACall("the call's arguments are not an object");
  }
  return {std::move(name), arguments->fields};
}

std::vector<WrittenCall> read_json_list(std::string_view text) {
  const JsonValue value = parse_json(text);
  if (value.kind != Kind::kItems) return {call_of(value)};
  if (value.items.empty()) throw NotACall("the list of calls is empty");
  std::vector<WrittenCall> calls;
  for (const JsonValue& each : value.items) calls.push_back(call_of(each));
  return calls;
}

std::unique_ptr<CallBody> body_of(const CallWriting& writing) {
  if (writing.kind == "json") return std::make_unique<JsonCall>(writing.opened);
  if (writing.kind == "list") return std::make_unique<JsonList>();
  if (writing.kind == "named") return std::make_unique<NamedJson>(writing.between, writing.skipped);
  if (writing.kind == "python") return std::make_unique<PythonCalls>();
  if (writing.kind == "gemma" && !writing.quote.empty()) return std::make_unique<GemmaCall>(writing.quote);
  if (writing.kind == "tagged") return std::make_unique<TaggedCall>();
  throw engine::Failure(EDGEC_REFUSED, "there is no way to write calls named \"" + writing.kind + "\"");
}

}  // namespace edgec::text
