// JSON values of any kind, as a model writes them: numbers stay as they are written.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgec::text {

// A text that is not the call that it was opened as.
class NotACall : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct JsonValue;
// The entries of an object in their order.
using JsonFields = std::vector<std::pair<std::string, JsonValue>>;

struct JsonValue {
  enum class Kind { kText, kWord, kItems, kFields };  // a word is a number, true, false or null

  Kind kind = Kind::kWord;
  std::string text;  // of a text or a word
  std::vector<JsonValue> items;
  JsonFields fields;
};

JsonValue text_value(std::string text);
JsonValue word_value(std::string word);
JsonValue items_value(std::vector<JsonValue> items);
JsonValue fields_value(JsonFields fields);

// The value of a name, null where there is none.
const JsonValue* find_field(const JsonFields& fields, std::string_view name);

// Set the value of a name: of those with one name, the last one counts, in the place of the first.
void set_field(JsonFields& fields, std::string name, JsonValue value);

// A value as JSON in ASCII.
std::string json_of(const JsonValue& value);

// The value of a text that is UTF-8, as strictly as edgec reads JSON in Python: no NaN, nothing endless, nothing after
// the value. Throws NotACall.
JsonValue parse_json(std::string_view text);

// Whether a number is within float64's range: `digits` (any number of them) times 10 to the power of `exponent` (an
// optional sign and digits).
bool is_finite_number(const std::string& digits, std::string_view exponent, size_t after_point);

}  // namespace edgec::text
