// The scales and minimums of a block as floats, exactly: each is a product of two small numbers. Include after
// EDGEC_BEGIN_ISA: where decode_vectors.h does not stand for them, the loops over rows become what vectors they can.
#pragma once

#include <cstring>

#include "isa.h"
#include "matrix.h"

namespace edgec::linear {
namespace {

EDGEC_INLINE float from_float16(const uint8_t* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  // Below the smallest normal number a float16 counts in steps of 2^-24.
  const uint32_t magnitude = half & 0x7fffu, normal = (magnitude << 13) + (112u << 23);
  float value;
  std::memcpy(&value, &normal, 4);
  const float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  const float size = magnitude < 0x400u ? small : value;
  return (half & 0x8000u) != 0 ? -size : size;
}

template <int kRows>
EDGEC_INLINE void floats_of(const uint8_t* from, float* to) {
  for (int row = 0; row < kRows; row++) to[row] = from_float16(from + 2 * row);
}

// float16 numbers of groups, for each of their slices.
template <int kRows>
EDGEC_INLINE void decode_float16(const Matrix& matrix, const uint8_t* tail, float* scales, float* minimums) {
  const int64_t shared = matrix.group / kSlice, bytes = kRows * (minimums == nullptr ? 2 : 4);
  for (int64_t slice = 0; slice < matrix.slices(); slice++, scales += kRows) {
    const uint8_t* group = tail + slice / shared * bytes;
    floats_of<kRows>(group, scales);
    if (minimums == nullptr) continue;
    floats_of<kRows>(group + kRows * 2, minimums);
    minimums += kRows;
  }
}

// float16 scales and whole zero points of groups, for each of their slices.
template <int kRows>
EDGEC_INLINE void decode_zeros(const Matrix& matrix, const uint8_t* tail, float* scales, float* minimums) {
  const int64_t shared = matrix.group / kSlice;
  const uint8_t* zeros = tail + matrix.groups() * kRows * 2;
  for (int64_t slice = 0; slice < matrix.slices(); slice++, scales += kRows, minimums += kRows) {
    const int64_t group = slice / shared;
    floats_of<kRows>(tail + group * kRows * 2, scales);
    for (int row = 0; row < kRows; row++) minimums[row] = -scales[row] * static_cast<float>(zeros[group * kRows + row]);
  }
}

template <int kRows>
EDGEC_INLINE void decode_six_bits(const Matrix& matrix, const uint8_t* lower, float* scales, float* minimums) {
  const int64_t slices = matrix.slices();
  const uint8_t* upper = lower + slices * kRows;
  const uint8_t* supers = upper + (slices + 1) / 2 * kRows;
  float d[kRows] = {}, e[kRows] = {};
  for (int64_t slice = 0; slice < slices; slice++, lower += kRows, scales += kRows, minimums += kRows) {
    if (slice % kSuperSlices == 0) {
      floats_of<kRows>(supers, d);
      floats_of<kRows>(supers + kRows * 2, e);
      supers += kRows * 4;
    }
    const int shift = slice % 2 * 4;
    for (int row = 0; row < kRows; row++) {
      const int low = lower[row], high = upper[row] >> shift;
      scales[row] = d[row] * static_cast<float>((low & 15) | (high & 3) << 4);
      minimums[row] = e[row] * static_cast<float>(low >> 4 | (high & 12) << 2);
    }
    upper += slice % 2 * kRows;
  }
}

// The scales of a slice's halves, one after the other.
template <int kRows>
EDGEC_INLINE void decode_eight_bits(const Matrix& matrix, const uint8_t* tail, float* scales) {
  const int64_t halves = 2 * matrix.slices();
  const uint8_t* supers = tail + halves * kRows;
  float d[kRows] = {};
  for (int64_t half = 0; half < halves; half++, tail += kRows, scales += kRows) {
    if (half % (2 * kSuperSlices) == 0) {
      floats_of<kRows>(supers, d);
      supers += kRows * 2;
    }
    for (int row = 0; row < kRows; row++) scales[row] = d[row] * static_cast<float>(static_cast<int8_t>(tail[row]));
  }
}

// scales [slices, or halves of them][kRows]; minimums [slices][kRows], or null where the matrix has none.
template <int kRows>
inline void decode(const Matrix& matrix, const uint8_t* block, float* scales, float* minimums) {
  const uint8_t* tail = matrix.tail(block);
  if (matrix.scales == Scales::kSixBits) return decode_six_bits<kRows>(matrix, tail, scales, minimums);
  if (matrix.scales == Scales::kFloat16Zero) return decode_zeros<kRows>(matrix, tail, scales, minimums);
  if (matrix.scales == Scales::kEightBits) return decode_eight_bits<kRows>(matrix, tail, scales);
  decode_float16<kRows>(matrix, tail, scales, minimums);
}

using Decode = void(const Matrix& matrix, const uint8_t* block, float* scales, float* minimums);

// What stands beside the codes of some blocks, in memory of this thread.
template <int kRows, Decode* kDecode = decode<kRows>>
class DecodedBlocks {
 public:
  // Blocks `block`, ... of a decoded matrix, one after the other, until another object of this thread is made.
  DecodedBlocks(const Matrix& matrix, const uint8_t* block, int64_t blocks)
      : floats_(kRows * matrix.slices()), scale_floats_(floats_ * (matrix.has_halves() ? 2 : 1)) {
    scales_ = decoded_memory(blocks * (floats_ + scale_floats_));
    minimums_ = matrix.has_minimums() ? scales_ + blocks * scale_floats_ : nullptr;
    for (int64_t i = 0; i < blocks; i++) {
      kDecode(matrix, block + i * matrix.block_bytes(), scales_ + i * scale_floats_,
              minimums_ == nullptr ? nullptr : minimums_ + i * floats_);
    }
  }

  const float* scales() const { return scales_; }
  const float* minimums() const { return minimums_; }
  int64_t block_scales() const { return scale_floats_; }  // floats from a block's scales to the next one's
  int64_t block_minimums() const { return floats_; }

 private:
  int64_t floats_, scale_floats_;
  float* scales_;
  float* minimums_;
};

}  // namespace
}  // namespace edgec::linear
