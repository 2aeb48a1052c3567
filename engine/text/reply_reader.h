// The reading of a message as it is written: reasoning, the answer and calls told apart by their markers.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "notations.h"
#include "stop_text.h"

namespace edgec::text {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

enum class PieceKind { kText, kReasoning, kCall };

struct ReplyPiece {
  PieceKind kind;
  std::string text;  // what was added; of a call, the call as the model wrote it
  std::vector<ToolCall> calls;  // those that became whole with it
};

// Reads one message; markers, and the space around them, do not belong to the parts that they separate.
class ReplyReader {
 public:
  // `notations` outlive the reader. `reasoning`: the prompt has opened the reasoning already. Throws Failure where a stop
  // string is empty.
  ReplyReader(const Notations& notations, std::vector<std::string> stops, bool reasoning);

  // Read more of the message, UTF-8. Throws NotACall where a call was opened and is none.
  void feed(std::string_view text);
  // Read what was kept back, once nothing more comes; throws likewise.
  void finish();
  // Take the first of the pieces that are certain and were not taken; false where there is none.
  bool take(ReplyPiece& piece);

  // The number of the stop string that has ended the answer; -1: none.
  int stopped_by() const { return stop_.hit(); }
  bool stopped() const { return stop_.hit() >= 0; }
  const std::string& shown() const { return shown_; }
  const std::string& reasoning() const { return reasoning_; }
  // All of the message with its markers.
  const std::string& raw() const { return raw_; }
  // Where in `raw` the last reasoning ends, after its marker.
  size_t thought_end() const { return thought_end_; }

 private:
  struct Mark {
    std::string_view text;
    PieceKind next;  // what follows it
    size_t place;    // where it was found
  };

  std::vector<Mark> marks() const;
  bool find_mark(Mark& found) const;
  bool misplaced(const Mark& mark) const;
  void turn(const Mark& mark);
  void finish_call(std::string_view body);
  std::vector<ToolCall> calls_in(std::string_view body) const;
  void write(std::string_view text);
  void show(std::string text);

  const Notations& notations_;
  StopText stop_;
  PieceKind kind_;
  std::string held_;   // read, and not yet certain what it is
  std::string space_;  // at the end of the part that is open
  bool begun_ = false;
  bool called_ = false;
  std::deque<ReplyPiece> fresh_;
  std::string shown_, reasoning_, raw_;
  size_t thought_end_ = 0;
};

}  // namespace edgec::text
