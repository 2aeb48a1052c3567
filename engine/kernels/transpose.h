// Transposing a square of kWidth x kWidth floats in log2(kWidth) rounds of exchanges.
#pragma once

#include <cstdint>
#include <utility>

#include "shuffle.h"
#include "simd.h"

namespace edgec {
namespace detail {

template <int kStep, int... I>
inline Vec left(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return shuffle<Vec, (I & kStep ? kWidth + I - kStep : I)...>(a, b);
}

template <int kStep, int... I>
inline Vec right(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return shuffle<Vec, (I & kStep ? kWidth + I : I + kStep)...>(a, b);
}

// Exchanges the off-diagonal quarters of every square of 2 * kStep rows.
template <int kStep>
inline void exchange(Vec (&rows)[kWidth]) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; i++) {
    if (i & kStep) continue;
    const Vec a = rows[i], b = rows[i + kStep];
    rows[i] = left<kStep>(a, b, Lanes{});
    rows[i + kStep] = right<kStep>(a, b, Lanes{});
  }
  if constexpr (kStep * 2 < kWidth) exchange<kStep * 2>(rows);
}

}  // namespace detail

// Writes the first `columns` columns of kWidth rows as rows.
inline void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int columns) {
  Vec rows[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; i++) rows[i] = load(from + i * from_stride);
  detail::exchange<1>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; i++) {
    if (i < columns) store(to + i * to_stride, rows[i]);
  }
}

}  // namespace edgec
