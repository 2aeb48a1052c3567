// A JSON text from outside, read value by value by code that knows what must come next: nothing is recursive.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace edgec::engine {

// Its functions throw Failure (EDGEC_REFUSED) where the text holds something else.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : rest_(text) {}

  // A string's value, UTF-8.
  std::string string();
  // A whole number from 0 to 2^53, without sign, fraction or exponent.
  int64_t natural();
  // A finite number.
  double number();
  // true or false.
  bool boolean();
  // That nothing but white space is left.
  void end();

  // Calls field(name) for each field, which reads its value; no name twice.
  template <typename Field>
  void object(Field&& field) {
    std::set<std::string> names;
    several('{', '}', [&] {
      const std::string name = string();
      if (!names.insert(name).second) refuse("a field twice");
      expect(':');
      field(name);
    });
  }

  // Calls element() for each element, which reads it.
  template <typename Element>
  void array(Element&& element) {
    several('[', ']', element);
  }

  // Refuse the text.
  [[noreturn]] static void refuse(const std::string& why);

 private:
  template <typename Read>
  void several(char opens, char closes, Read&& read) {
    expect(opens);
    if (accept(closes)) return;
    do {
      read();
    } while (accept(','));
    expect(closes);
  }
  void expect(char wanted);
  bool accept(char wanted);
  std::string_view number_text();
  uint32_t escaped_unit();
  uint32_t escaped_character();

  std::string_view rest_;
};

// A text as Python's json.dumps writes it: between quotes, with escapes for all that is not printable ASCII. Throws
// Failure where it is not UTF-8.
std::string ascii_json(std::string_view text);

}  // namespace edgec::engine
