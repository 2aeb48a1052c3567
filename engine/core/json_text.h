// A JSON text from outside, read value by value by code that knows what must come next: nothing is recursive.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "edgec/engine.h"

namespace edgec::engine {

// Its functions throw Failure with `status` where the text holds something else; errors call it `subject`.
class JsonText {
 public:
  static constexpr int64_t kMostNatural = int64_t{1} << 53;

  JsonText(std::string_view text, std::string subject, int status = EDGEC_REFUSED)
      : rest_(text), subject_(std::move(subject)), status_(status) {}

  // A string's value, UTF-8.
  std::string string();
  // A whole number from 0 to `most`, without sign, fraction or exponent.
  int64_t natural(int64_t most = kMostNatural);
  // A finite number.
  double number();
  // true or false.
  bool boolean();
  // Whether null comes next, which is then read.
  bool null();
  // Whether a value that begins so comes next.
  bool begins(char letter) const;
  // A value of any kind, whatever it holds.
  void skip();
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

  // Refuse the text for what it holds.
  [[noreturn]] void refuse(const std::string& why) const { fail("holds " + why); }
  // Refuse the text, which `does` something that it may not.
  [[noreturn]] void fail(const std::string& does) const;

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
  bool accept_word(std::string_view word);
  void skip_name();
  void skip_plain();
  std::string_view number_text();
  uint32_t character();
  uint32_t escaped_unit();
  uint32_t escaped_character();

  std::string_view rest_;
  std::string subject_;
  int status_;
};

// A text as Python's json.dumps writes it: between quotes, with escapes for all that is not printable ASCII. Throws
// Failure where it is not UTF-8.
std::string ascii_json(std::string_view text);

}  // namespace edgec::engine
