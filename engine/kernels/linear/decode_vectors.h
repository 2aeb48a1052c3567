// What decode.h computes, in vectors. Include after EDGEC_BEGIN_ISA.
#pragma once

#include "decode.h"
#include "isa.h"
#include "vectors.h"

namespace edgec::linear {
namespace {

constexpr int kVectorsOfRows = kBlockRows / kVectorRows;

// A float16 number of each row.
struct RowFactors {
  Floats of[kVectorsOfRows];

  EDGEC_INLINE void load(const uint8_t* from) {
    EDGEC_UNROLL
    for (int i = 0; i < kVectorsOfRows; i++) of[i] = load_float16(from + i * kVectorRows * 2);
  }

  EDGEC_INLINE void store(float* to) const {
    EDGEC_UNROLL
    for (int i = 0; i < kVectorsOfRows; i++) store_floats(to + i * kVectorRows, of[i]);
  }
};

EDGEC_INLINE void vector_decode_float16(const Matrix& matrix, const uint8_t* tail, float* scales, float* minimums) {
  const int64_t groups = matrix.groups(), shared = matrix.group / kSlice;
  RowFactors factors;
  for (int64_t group = 0; group < groups; group++) {
    factors.load(tail);
    tail += kBlockRows * 2;
    for (int64_t i = 0; i < shared; i++, scales += kBlockRows) factors.store(scales);
    if (minimums == nullptr) continue;
    factors.load(tail);
    tail += kBlockRows * 2;
    for (int64_t i = 0; i < shared; i++, minimums += kBlockRows) factors.store(minimums);
  }
}

EDGEC_INLINE void vector_decode_zeros(const Matrix& matrix, const uint8_t* tail, float* scales, float* minimums) {
  const int64_t groups = matrix.groups(), shared = matrix.group / kSlice;
  const uint8_t* zeros = tail + groups * kBlockRows * 2;
  RowFactors factors, lowest;
  for (int64_t group = 0; group < groups; group++, tail += kBlockRows * 2, zeros += kBlockRows) {
    factors.load(tail);
    EDGEC_UNROLL
    for (int i = 0; i < kVectorsOfRows; i++) {
      lowest.of[i] = times(times(factors.of[i], same_floats(-1.0f)), as_floats(widened(zeros + i * kVectorRows)));
    }
    for (int64_t i = 0; i < shared; i++, scales += kBlockRows, minimums += kBlockRows) {
      factors.store(scales);
      lowest.store(minimums);
    }
  }
}

// A slice's scales and minimums; its upper bits are the lower four of `upper`.
EDGEC_INLINE void six_bits_of(const uint8_t* lower, const Ints (&upper)[kVectorsOfRows], const RowFactors& d,
                              const RowFactors& e, float* scales, float* minimums) {
  EDGEC_UNROLL
  for (int i = 0; i < kVectorsOfRows; i++) {
    const Ints low = widened(lower + i * kVectorRows);
    const Ints scale = either(and_all(low, 15), shifted(and_all(upper[i], 3), -4));
    const Ints minimum = either(shifted(low, 4), shifted(and_all(upper[i], 12), -2));
    store_floats(scales + i * kVectorRows, times(d.of[i], as_floats(scale)));
    store_floats(minimums + i * kVectorRows, times(e.of[i], as_floats(minimum)));
  }
}

// Up to kSuperSlices slices, whose scales and minimums are of d and e.
EDGEC_INLINE void six_bits_of_slices(int64_t slices, const uint8_t* lower, const uint8_t* upper, const RowFactors& d,
                                     const RowFactors& e, float* scales, float* minimums) {
  for (int64_t at = 0; at < slices * kBlockRows; at += 2 * kBlockRows, upper += kBlockRows) {
    Ints high[kVectorsOfRows];
    EDGEC_UNROLL
    for (int i = 0; i < kVectorsOfRows; i++) high[i] = widened(upper + i * kVectorRows);
    six_bits_of(lower + at, high, d, e, scales + at, minimums + at);
    const int64_t next = at + kBlockRows;
    if (next == slices * kBlockRows) break;
    EDGEC_UNROLL
    for (int i = 0; i < kVectorsOfRows; i++) high[i] = shifted(high[i], 4);
    six_bits_of(lower + next, high, d, e, scales + next, minimums + next);
  }
}

EDGEC_INLINE void vector_decode_six_bits(const Matrix& matrix, const uint8_t* lower, float* scales, float* minimums) {
  const int64_t slices = matrix.slices();
  const uint8_t* upper = lower + slices * kBlockRows;
  const uint8_t* supers = upper + (slices + 1) / 2 * kBlockRows;
  for (int64_t slice = 0; slice < slices; slice += kSuperSlices, supers += kBlockRows * 4) {
    RowFactors d, e;
    d.load(supers);
    e.load(supers + kBlockRows * 2);
    const int64_t count = slices - slice < kSuperSlices ? slices - slice : kSuperSlices, at = slice * kBlockRows;
    six_bits_of_slices(count, lower + at, upper + at / 2, d, e, scales + at, minimums + at);
  }
}

EDGEC_INLINE void vector_decode_eight_bits(const Matrix& matrix, const uint8_t* tail, float* scales) {
  constexpr int64_t kSuperHalves = 2 * kSuperSlices;
  const int64_t halves = 2 * matrix.slices();
  const uint8_t* supers = tail + halves * kBlockRows;
  for (int64_t first = 0; first < halves; first += kSuperHalves, supers += kBlockRows * 2) {
    RowFactors d;
    d.load(supers);
    const int64_t count = halves - first < kSuperHalves ? halves - first : kSuperHalves;
    for (int64_t half = 0; half < count; half++, tail += kBlockRows, scales += kBlockRows) {
      EDGEC_UNROLL
      for (int i = 0; i < kVectorsOfRows; i++) {
        store_floats(scales + i * kVectorRows, times(d.of[i], as_floats(widened_signed(tail + i * kVectorRows))));
      }
    }
  }
}

inline void vector_decode(const Matrix& matrix, const uint8_t* block, float* scales, float* minimums) {
  const uint8_t* tail = matrix.tail(block);
  if (matrix.scales == Scales::kSixBits) return vector_decode_six_bits(matrix, tail, scales, minimums);
  if (matrix.scales == Scales::kFloat16Zero) return vector_decode_zeros(matrix, tail, scales, minimums);
  if (matrix.scales == Scales::kEightBits) return vector_decode_eight_bits(matrix, tail, scales);
  vector_decode_float16(matrix, tail, scales, minimums);
}

using Decoded = DecodedBlocks<kBlockRows, vector_decode>;

}  // namespace
}  // namespace edgec::linear
