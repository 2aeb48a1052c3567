// Whisper's rules for timestamps, and where they cut the text of a window (sections 4.5 and 3.8 of arXiv 2212.04356).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace edgec::runner {

// Timestamps come in pairs, never go back, and begin within the first `latest_first` steps of 20 ms.
struct TimestampRules {
  int64_t first = 0;          // the token of 0.00 s; all ids from it on are timestamps
  int64_t no_timestamps = 0;  // asks for none, and is never said
  int64_t eos = 0;            // ends a text
  std::optional<int64_t> latest_first;

  // Masks the logits of what may not come after `said`, the new tokens of this window so far.
  void apply(std::vector<float>& logits, const std::vector<int64_t>& said) const;
  bool is_stamp(int64_t token) const { return token >= first; }
};

// A piece of a window's text; its times count steps from the window's beginning.
struct WindowPiece {
  double first = 0;
  double last = 0;
  std::vector<int64_t> tokens;
};

struct WindowCut {
  std::vector<WindowPiece> pieces;
  int64_t samples = 0;  // that are done; the next window begins after them
};

// Cuts what was said in a window of `length` samples where one timestamp follows another; what is unfinished belongs to
// the next window. Without rules it is one piece.
WindowCut cut_window(
    const std::vector<int64_t>& said, const std::optional<TimestampRules>& rules, int64_t length, int64_t step);

}  // namespace edgec::runner
