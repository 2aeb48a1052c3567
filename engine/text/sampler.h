// From logits to the next token.
//
// The order is that of transformers' `generate`: repetition penalty, temperature, top-k, top-p, min-p; OpenAI's penalties
// and biases come before the temperature. Temperature 0 is greedy: penalties, then the largest. Arithmetic and random
// numbers are those of runtime_py/decoding/sampling.py, so that one seed chooses the same tokens in every language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "draws.h"

namespace edgec::text {

struct Sampling {
  double temperature = 0;         // 0: greedy; else 1e-12 to 1e12
  int64_t top_k = 0;              // keep the k largest, with those that equal the last of them; 0: all
  double top_p = 1;               // keep the smallest set whose probability reaches it; 1: all
  double min_p = 0;               // drop tokens less likely than this share of the likeliest; 0: none
  double repetition_penalty = 1;  // makes tokens that came before less likely; 1: none
  double presence_penalty = 0;    // subtracted for tokens of the answer, -2 to 2
  double frequency_penalty = 0;   // the same, times how often the answer has them
  std::vector<std::pair<int64_t, double>> biases;  // added to the logits of tokens, -100 (never) to 100
  std::optional<uint64_t> seed;   // none: the system's random numbers
};

class Sampler {
 public:
  // Choose what follows a prompt. Throws Failure where an option is out of its range.
  Sampler(Sampling sampling, const int64_t* prompt, size_t count);

  // The logits by which the next token is drawn: what may not come is -infinity.
  std::vector<float> scores(const float* logits, size_t count) const;
  // The next token.
  int64_t choose(const float* logits, size_t count);
  // A token was written: the next one is chosen after it.
  void take(int64_t token);

 private:
  void penalise(std::vector<float>& scores) const;

  Sampling sampling_;
  Draws draws_;
  std::set<int64_t> seen_;
  std::map<int64_t, int64_t> answer_;  // how often each token was written
};

}  // namespace edgec::text
