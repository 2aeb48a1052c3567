// Softmax over keys that arrive in tiles: running maximum and sum per row (Milakov and Gimelshein 2018,
// arXiv 1805.02867). Scores are in units of log 2.
#pragma once

#include <cstdint>

#include "geometry.h"
#include "shuffle.h"
#include "vector_math.h"

namespace edgec {

inline constexpr float kLog2e = 1.44269504f;
// Below every score, and finite, so that the difference of two of them is not NaN.
inline constexpr float kNothingYet = -1e30f;

struct Running {
  float maximum = kNothingYet;
  float sum = 0.0f;
};

// score <- softcap * tanh(score), where the scores come divided by the cap; `softcap` is in units of log 2.
inline void cap_scores(float* scores, int count, float softcap) {
  for (int i = 0; i < count; i += kWidth) store(scores + i, softcap * tanh(load(scores + i)));
}

// Removes the keys in [first, end) that are not seen from the softmax.
inline void hide(float* scores, int first, int end, Seen seen) {
  for (int i = first; i < std::min(seen.first, end); i++) scores[i] = -__builtin_inff();
  for (int i = std::max(seen.end, first); i < end; i++) scores[i] = -__builtin_inff();
}

// Turns scores into weights relative to the running maximum; returns the factor by which to rescale earlier weights.
// `count` is a multiple of kWidth.
inline float absorb(float* scores, int count, Running& row) {
  Vec top = broadcast(row.maximum);
  for (int i = 0; i < count; i += kWidth) top = max(top, load(scores + i));
  const float highest = maximum(top);
  const Vec base = broadcast(highest);
  Vec total{};
  for (int i = 0; i < count; i += kWidth) {
    const Vec weight = exp2(load(scores + i) - base);
    store(scores + i, weight);
    total += weight;
  }
  const float factor = highest == row.maximum ? 1.0f : exp2(broadcast(row.maximum - highest))[0];
  row.sum = row.sum * factor + sum(total);
  row.maximum = highest;
  return factor;
}

}  // namespace edgec
