#include "experts.h"

#include <algorithm>

#include "parallel.h"
#include "shuffle.h"

namespace edgec {
namespace {

// Rows of a matrix that one thread multiplies by all tokens of its expert: they stay in its cache.
constexpr int64_t kRowsAtOnce = 32;

// kRows rows of a matrix times kTokens rows of x. Each sum runs in the same order whatever stands beside it.
template <int kRows, int kTokens>
void multiply_tile(const float* weight, int64_t width, const float* const* x, float* const* out) {
  Vec sums[kRows][kTokens] = {};
  int64_t i = 0;
  for (; i + kWidth <= width; i += kWidth) {
    Vec right[kTokens];
    for (int t = 0; t < kTokens; t++) right[t] = load(x[t] + i);
    for (int r = 0; r < kRows; r++) {
      const Vec left = load(weight + r * width + i);
      for (int t = 0; t < kTokens; t++) sums[r][t] = fma(left, right[t], sums[r][t]);
    }
  }
  for (int r = 0; r < kRows; r++) {
    for (int t = 0; t < kTokens; t++) {
      float total = sum(sums[r][t]);
      for (int64_t j = i; j < width; j++) total += weight[r * width + j] * x[t][j];
      out[t][r] = total;
    }
  }
}

template <int kTokens>
void multiply_rows(const float* weight, int64_t rows, int64_t width, const float* const* x, float* const* out) {
  float* to[kTokens];
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (int t = 0; t < kTokens; t++) to[t] = out[t] + row;
    multiply_tile<4, kTokens>(weight + row * width, width, x, to);
  }
  for (; row < rows; row++) {
    for (int t = 0; t < kTokens; t++) to[t] = out[t] + row;
    multiply_tile<1, kTokens>(weight + row * width, width, x, to);
  }
}

// Rows first..first + count - 1 of one expert's matrix for the pairs that chose it.
void run_part(const Experts& call, const float* weight, int64_t first, int64_t count, const int64_t* pairs,
              int64_t pair_count, const float* bias) {
  const auto from = [&](int64_t pair) { return call.x + call.x_row(pair) * call.width; };
  const auto to = [&](int64_t pair) { return call.out + pair * call.rows + first; };
  int64_t i = 0;
  for (; i + 2 <= pair_count; i += 2) {
    const float* x[] = {from(pairs[i]), from(pairs[i + 1])};
    float* out[] = {to(pairs[i]), to(pairs[i + 1])};
    multiply_rows<2>(weight + first * call.width, count, call.width, x, out);
  }
  if (i < pair_count) {
    const float* x[] = {from(pairs[i])};
    float* out[] = {to(pairs[i])};
    multiply_rows<1>(weight + first * call.width, count, call.width, x, out);
  }
  for (int64_t p = 0; bias != nullptr && p < pair_count; p++) {
    float* out = to(pairs[p]);
    for (int64_t row = 0; row < count; row++) out[row] += bias[first + row];
  }
}

}  // namespace

Routed route(const Experts& call) {
  std::vector<int64_t> ends(static_cast<size_t>(call.experts) + 1);
  for (int64_t pair = 0; pair < call.pairs(); pair++) {
    if (call.chosen(pair)) {
      ends[call.index[pair] + 1]++;
    } else {
      std::fill_n(call.out + pair * call.rows, call.rows, 0.0f);
    }
  }
  Routed routed;
  for (int64_t expert = 0; expert < call.experts; expert++) {
    ends[expert + 1] += ends[expert];
    if (ends[expert + 1] == ends[expert]) continue;
    routed.present.push_back(expert);
    routed.ends.push_back(ends[expert + 1]);
  }
  routed.pairs.resize(static_cast<size_t>(ends.back()));
  for (int64_t pair = 0; pair < call.pairs(); pair++) {
    if (call.chosen(pair)) routed.pairs[ends[call.index[pair]]++] = pair;
  }
  return routed;
}

void multiply_experts(const Experts& call, const float* weight) {
  const Routed routed = route(call);
  const int64_t parts = (call.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  const auto present = static_cast<int64_t>(routed.present.size());
  const bool worth_waking = present * call.rows * call.width >= kFloatsWorthWaking;
  for_units(present * parts, worth_waking, [&](int64_t unit) {
    const int64_t i = unit / parts, expert = routed.present[i], first = unit % parts * kRowsAtOnce;
    const int64_t begin = i == 0 ? 0 : routed.ends[i - 1];
    const float* bias = call.bias == nullptr ? nullptr : call.bias + expert * call.rows;
    run_part(call, weight + expert * call.rows * call.width, first, std::min(kRowsAtOnce, call.rows - first),
             routed.pairs.data() + begin, routed.ends[i] - begin, bias);
  });
}

}  // namespace edgec
