// The words, numbers and texts of Python's notation, one after the other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace edgec::text {

// Of a text without null characters. Its functions throw NotACall.
class PythonTokens {
 public:
  explicit PythonTokens(std::string_view text) : text_(text) {}

  // The first byte of what comes next, after space and notes; 0 at the end. Lines may end within brackets.
  char next();
  // Take a mark where it comes next.
  bool taken(char mark);
  // A bracket was opened, or closed again.
  void open();
  void close() { --depth_; }

  // A name or a word like True, in Python's normal form of it (NFKC).
  std::string word();
  // A name that is no keyword.
  std::string name();
  // A number without sign, as JSON has it.
  std::string number();
  bool text_follows();
  // A text; those that follow each other are one.
  std::string text();

  [[noreturn]] static void fail(const std::string& why);

 private:
  struct Quote {
    std::string_view prefix, marks;  // no marks: no text begins here
  };

  char at(size_t place) const { return place < text_.size() ? text_[place] : '\0'; }
  bool passed(char mark);
  size_t line_end(size_t place) const;
  std::string digits();
  std::string number_of_base(unsigned base);
  std::string plain_number();
  Quote quote() const;
  std::string one_text();
  void write_character(std::string& out, bool raw);
  void write_escape(std::string& out);
  void write_point(size_t digits, std::string& out);

  std::string_view text_;
  size_t place_ = 0;
  int depth_ = 0;
};

}  // namespace edgec::text
