// The matrix product of attention in registers: C[rows, columns] (+)= A[rows, steps] * B[steps, columns].
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "simd.h"

namespace edgec {

// As many sums as possible while registers remain for one step's operands: 24 of 32 registers, 12 of AVX2's 16.
#if defined(__AVX512F__)
inline constexpr int kRows = 12, kVectors = 2;
#elif defined(__AVX2__)
inline constexpr int kRows = 6, kVectors = 2;
#else
inline constexpr int kRows = 6, kVectors = 4;
#endif
inline constexpr int kColumns = kVectors * kWidth;

// `kAcross` vectors of columns. A's element (r, k) lies at a[r * kRowStride + k * kStepStride], B's rows are kColumns
// wide.
template <int kCount, int kAcross, int kRowStride, int kStepStride, bool kAccumulate>
void multiply_block(const float* a, const float* b, int64_t steps, float* c, int64_t c_stride) {
  Vec sums[kCount][kAcross];
#pragma GCC unroll 16
  for (int r = 0; r < kCount; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < kAcross; v++) sums[r][v] = kAccumulate ? load(c + r * c_stride + v * kWidth) : Vec{};
  }
  for (int64_t k = 0; k < steps; k++, a += kStepStride, b += kColumns) {
    Vec right[kAcross];
#pragma GCC unroll 4
    for (int v = 0; v < kAcross; v++) right[v] = load(b + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kCount; r++) {
      const Vec left = broadcast(a[r * kRowStride]);
#pragma GCC unroll 4
      for (int v = 0; v < kAcross; v++) sums[r][v] = fma(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kCount; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < kAcross; v++) store(c + r * c_stride + v * kWidth, sums[r][v]);
  }
}

template <int kAcross, int kRowStride, int kStepStride, bool kAccumulate>
class Multiply {
 public:
  using Block = void (*)(const float*, const float*, int64_t, float*, int64_t);

  // `rows` is 1..kRows.
  static void run(int rows, const float* a, const float* b, int64_t steps, float* c, int64_t c_stride) {
    static constexpr auto blocks = table(std::make_integer_sequence<int, kRows>());
    blocks[rows - 1](a, b, steps, c, c_stride);
  }

 private:
  template <int... kCount>
  static constexpr std::array<Block, kRows> table(std::integer_sequence<int, kCount...>) {
    return {multiply_block<kCount + 1, kAcross, kRowStride, kStepStride, kAccumulate>...};
  }
};

}  // namespace edgec
