// What stands between the markers of a call, in each of the notations.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "json_value.h"

namespace edgec::text {

// A call as it was read.
struct WrittenCall {
  std::string name;
  JsonFields arguments;
};

class CallBody {
 public:
  virtual ~CallBody() = default;

  // The calls of a text that is UTF-8. Throws NotACall.
  virtual std::vector<WrittenCall> read(std::string_view text) const = 0;

  // A call's arguments as the tool's schema has them; `texts` are those that are texts by it. Throws NotACall.
  virtual JsonFields typed(JsonFields arguments, const std::set<std::string>& texts) const {
    (void)texts;
    return arguments;
  }
};

// How a call is written between its markers: the fields of `CallWriting` in bundle/notations.py.
struct CallWriting {
  std::string kind;
  std::string opened;
  std::string between;
  std::string skipped;
  std::string quote;
};

// The body of a way of writing. Throws Failure where there is none of its kind.
std::unique_ptr<CallBody> body_of(const CallWriting& writing);

// `[{"name": NAME, "arguments": {...}}, ...]`, or one such object. Throws NotACall.
std::vector<WrittenCall> read_json_list(std::string_view text);

// A call of a name and arguments. Throws NotACall where it lacks one.
WrittenCall checked_call(std::string name, const JsonValue* arguments);

}  // namespace edgec::text
