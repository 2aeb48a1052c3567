// How codes of 2 to 8 bits become bytes. Include after EDGEC_BEGIN_ISA.
#pragma once

#include "isa.h"
#include "matrix.h"
#include "vectors.h"

namespace edgec::linear {
namespace {

constexpr int kLine = 64;  // bytes: 4 values of 16 rows, as many bits of each as make a byte together
constexpr int kSliceVectors = 8;

// The codes of 4 values of a vector's rows, as bytes: vector n of the slice whose first line is at `slice`.
template <int kBits>
inline Ints codes_at(const uint8_t* slice, int n) {
  static_assert(kBits == 2 || kBits == 4);
  constexpr int kInLine = 8 / kBits;
  return and_all(shifted(load(slice + n / kInLine * kLine), n % kInLine * kBits), (1 << kBits) - 1);
}

// The same codes where they lie in their bytes: 2^(kBits * (n % (8 / kBits))) times as large.
template <int kBits>
inline Ints codes_in_place(const uint8_t* slice, int n) {
  constexpr int kInLine = 8 / kBits;
  return and_all(load(slice + n / kInLine * kLine), ((1 << kBits) - 1) << n % kInLine * kBits);
}

template <>
inline Ints codes_at<3>(const uint8_t* slice, int n) {
  const Ints highest = and_all(shifted(load(slice + 2 * kLine), n - 2), 4);
  return either(codes_at<2>(slice, n), highest);
}

template <>
inline Ints codes_at<5>(const uint8_t* slice, int n) {
  const Ints highest = and_all(shifted(load(slice + 4 * kLine), n - 4), 16);
  return either(codes_at<4>(slice, n), highest);
}

template <>
inline Ints codes_at<6>(const uint8_t* slice, int n) {
  const Ints highest = and_all(shifted(load(slice + (4 + n / 4) * kLine), n % 4 * 2 - 4), 48);
  return either(codes_at<4>(slice, n), highest);
}

template <>
inline Ints codes_at<8>(const uint8_t* slice, int n) {
  return load(slice + n * kLine);
}

// A token's values as they lie, for kernels that multiply bytes.
struct ByteValues {
  struct Slice {
    const int8_t* values;
  };

  static EDGEC_INLINE void read_slice(const int8_t* values, Slice& slice) {
    slice.values = values;
    // One register a token: gcc would keep pointers to each of its vectors, in memory.
    asm("" : "+r"(slice.values));
  }

  static EDGEC_INLINE Ints four(const Slice& slice, int n, int) { return four_values(slice.values + n * 4); }
};

// Codes as floats: value = fma(code, step, start).
template <int kBits>
struct FloatCodes {
  static inline float start(const Matrix& matrix) { return static_cast<float>(-matrix.offset); }

  // Values 4n .. 4n + 3 of the rows of one vector.
  template <int kPart>
  static EDGEC_INLINE void read(const uint8_t* slice, int n, Floats (&codes)[4]) {
    const Ints bytes = codes_at<kBits>(slice + kPart * kVectorBytes, n);
    EDGEC_UNROLL
    for (int j = 0; j < 4; j++) codes[j] = as_floats(byte_of(bytes, j));
  }
};

EDGEC_INLINE void add_products(const Floats (&values)[4], const float* x, Floats (&sums)[4]) {
  EDGEC_UNROLL
  for (int j = 0; j < 4; j++) sums[j] = fused(values[j], same_floats(x[j]), sums[j]);
}

}  // namespace
}  // namespace edgec::linear
