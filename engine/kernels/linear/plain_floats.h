// "Vectors" of floats in plain C++, for a block's 16 rows.
#pragma once

#include <cmath>
#include <cstring>

#include "decode.h"
#include "isa.h"
#include "matrix.h"

// Small rather than fast: few processors need this, and most of them have no instruction for it.
#undef EDGEC_UNROLL
#define EDGEC_UNROLL _Pragma("GCC unroll 1")

namespace edgec::linear {
namespace {

constexpr int kVectorRows = 16, kBlockRows = 16, kFloatTokens = 2;

using Decoded = DecodedBlocks<kBlockRows>;

struct Floats {
  float of[kVectorRows];
};

inline Floats same_floats(float x) {
  Floats result;
  for (float& each : result.of) each = x;
  return result;
}

inline Floats no_floats() { return same_floats(0.0f); }

inline Floats plus(const Floats& x, const Floats& y) {
  Floats result;
  for (int i = 0; i < kVectorRows; i++) result.of[i] = x.of[i] + y.of[i];
  return result;
}

__attribute__((noinline)) Floats fused(const Floats& x, const Floats& y, const Floats& z) {
  Floats result;
  for (int i = 0; i < kVectorRows; i++) result.of[i] = std::fma(x.of[i], y.of[i], z.of[i]);
  return result;
}

inline Floats load_floats(const float* from) {
  Floats result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

inline void store_floats(float* to, const Floats& x) { std::memcpy(to, &x, sizeof x); }

inline Floats load_bfloat16(const uint8_t* from) {
  Floats result;
  for (int i = 0; i < kVectorRows; i++) {
    const uint32_t bits = static_cast<uint32_t>(from[2 * i] | from[2 * i + 1] << 8) << 16;
    std::memcpy(&result.of[i], &bits, sizeof bits);
  }
  return result;
}

inline void add_products(const Floats (&values)[4], const float* x, Floats (&sums)[4]) {
  for (int j = 0; j < 4; j++) sums[j] = fused(values[j], same_floats(x[j]), sums[j]);
}

template <int kBits>
struct FloatCodes {
  static float start(const Matrix& matrix) { return static_cast<float>(-matrix.offset); }

  // The bits of byte `at` of vector n in a plane (matrix.h).
  template <int kPlaneBits>
  static int bits_of(const uint8_t* plane, int n, int at) {
    constexpr int kInLine = 8 / kPlaneBits;
    return plane[n / kInLine * 64 + at] >> n % kInLine * kPlaneBits & ((1 << kPlaneBits) - 1);
  }

  template <int kPart>
  static void read(const uint8_t* slice, int n, Floats (&codes)[4]) {
    for (int i = 0; i < 4 * kVectorRows; i++) {
      constexpr int kLow = kBits == 3 ? 2 : kBits == 5 || kBits == 6 ? 4 : kBits;
      int code = bits_of<kLow>(slice, n, i);
      if constexpr (kLow != kBits) code |= bits_of<kBits - kLow>(slice + kLow * 64, n, i) << kLow;
      codes[i % 4].of[i / 4] = static_cast<float>(code);
    }
  }
};

}  // namespace
}  // namespace edgec::linear
