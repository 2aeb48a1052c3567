// Which tokens a message may hold: reasoning of a bounded length first, then what the answer's own structure allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "notations.h"
#include "text_stream.h"

namespace edgec::text {

// Follows one message through its reasoning. The structure of the answer is the caller's: the rule says when it begins,
// when it decides and when it is dropped.
class ThinkingRule {
 public:
  enum class Phase { kStart, kThink, kAnswer };  // whether the reasoning may still begin, is being written, or is over

  // What may come next.
  struct Next {
    int64_t only = -1;      // the one token that may come; -1: not prescribed
    int64_t also = -1;      // one that may come besides those that the structure allows; -1: none
    bool thinking = false;  // the message does not end here
    bool answer = false;    // the structure of the answer decides
  };

  // `notations` outlive the rule, and have reasoning unless the phase is kAnswer. `budget`: the most tokens of reasoning;
  // negative: any number. Throws Failure where a budget is given and no tokens write the markers.
  ThinkingRule(const Notations& notations, Decode decode, Phase phase, int64_t budget);

  Next next() const;
  // Whether the structure of the answer is to take a token, too; `allowed`: whether it allows it.
  bool gives(int64_t token, bool allowed) const;
  // Take a token; `given`: what `gives` said of the one that was chosen. Whether a structure is to begin, after reasoning.
  bool take(int64_t token, bool given);

 private:
  int64_t onward() const;
  bool take_first(int64_t token, bool given);
  bool take_thought(int64_t token);
  void think();
  void close_in_time();
  bool begin_answer();
  std::string written() const { return decode_(run_.data(), run_.size()); }

  const ThinkingNotation* notation_;
  Decode decode_;
  Phase phase_;
  int64_t budget_, thought_ = 0;
  std::vector<int64_t> run_;     // the tokens in which a marker may be complete next
  std::vector<int64_t> forced_;  // those that close the reasoning, next one last
  bool fits_ = true;             // what was written before it is known to be reasoning may be the answer
};

}  // namespace edgec::text
