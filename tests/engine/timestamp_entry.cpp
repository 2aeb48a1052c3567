// Whisper's rules for timestamps, and where they cut a window, for the cases on stdin:
//
//     FIRST NO_TIMESTAMPS EOS LATEST_FIRST LENGTH STEP COUNT TOKEN... VOCABULARY LOGIT...
//
// LATEST_FIRST -1: none. Prints for each case the ids that may not come, then the samples that are done and each piece:
// first and last step and the number of its tokens.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <vector>

#include "audio/timestamps.h"

int main() {
  edgec::runner::TimestampRules rules;
  for (int64_t latest = 0, length = 0, step = 0; std::cin >> rules.first;) {
    std::cin >> rules.no_timestamps >> rules.eos >> latest >> length >> step;
    rules.latest_first = latest < 0 ? std::nullopt : std::optional<int64_t>(latest);
    size_t count = 0;
    std::cin >> count;
    std::vector<int64_t> said(count);
    for (int64_t& token : said) std::cin >> token;
    std::cin >> count;
    std::vector<float> logits(count);
    for (float& logit : logits) std::cin >> logit;
    rules.apply(logits, said);
    for (size_t token = 0; token < logits.size(); ++token) {
      if (std::isinf(logits[token])) std::cout << token << " ";
    }
    const edgec::runner::WindowCut cut = edgec::runner::cut_window(said, rules, length, step);
    std::cout << "\n" << cut.samples;
    for (const auto& piece : cut.pieces) std::cout << " " << piece.first << " " << piece.last << " " << piece.tokens.size();
    std::cout << "\n";
  }
  return 0;
}
