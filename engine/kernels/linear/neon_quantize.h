// Quantisation of tokens, with the bits of quantize_plainly; part of the source file of an instruction set, after
// EDGEC_BEGIN_ISA.
#pragma once

#include <cstring>

#include "kernel.h"
#include "neon.h"
#include "plain.h"

namespace edgec::linear {
namespace {

// The values of a slice: where they are, or a copy with zeros beyond the width.
EDGEC_PART const float* slice_of(const float* x, int64_t left, float (&copy)[kSlice]) {
  if (left >= kSlice) return x;
  std::memset(copy, 0, sizeof(copy));
  std::memcpy(copy, x, left * sizeof(float));
  return copy;
}

// The grid of 32 values. Values that are not a number do not count.
EDGEC_PART SliceGrid grid_of(const float* x) {
  float32x4_t largest = vdupq_n_f32(0);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) largest = vmaxnmq_f32(largest, vabsq_f32(vld1q_f32(x + i * 4)));
  return slice_grid(vmaxnmvq_f32(largest));
}

// None exceeds 127 without sign; what is not a number becomes 0.
EDGEC_PART int8x16_t quantized(const float* x, float inverse) {
  int32x4_t whole[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) whole[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i * 4), inverse));
  const int16x8_t low = vqmovn_high_s32(vqmovn_s32(whole[0]), whole[1]);
  const int16x8_t high = vqmovn_high_s32(vqmovn_s32(whole[2]), whole[3]);
  return vqmovn_high_s16(vqmovn_s16(low), high);
}

struct SliceBytes {
  int8x16_t v[2];
};

// 32 values of a token into its half of a pair.
EDGEC_PART void store_half(const SliceBytes& bytes, int8_t* to) {
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    vst1_s8(to + i * 32, vget_low_s8(bytes.v[i]));
    vst1_s8(to + i * 32 + 16, vget_high_s8(bytes.v[i]));
  }
}

template <bool kPairs>
void quantize_token(const float* x, int64_t width, int64_t token, const Tokens& tokens) {
  float copy[kSlice];
  int8_t* pairs = kPairs ? tokens.pairs + token / 2 * tokens.slices * kSlice * 2 + token % 2 * 8 : nullptr;
  for (int64_t slice = 0; slice < tokens.slices; slice++) {
    const int64_t at = slice * kSlice, index = token * tokens.slices + slice;
    const float* floats = slice_of(x + at, width - at, copy);
    const SliceGrid grid = grid_of(floats);
    const SliceBytes bytes = {{quantized(floats, grid.inverse), quantized(floats + 16, grid.inverse)}};
    vst1q_s8(tokens.values + index * kSlice, bytes.v[0]);
    vst1q_s8(tokens.values + index * kSlice + 16, bytes.v[1]);
    if constexpr (kPairs) store_half(bytes, pairs + at * 2);
    const int8x16_t ones = vdupq_n_s8(1);
    const int32x4_t sums = vdotq_s32(vdotq_s32(vdupq_n_s32(0), bytes.v[0], ones), bytes.v[1], ones);
    const int32_t sum = vaddvq_s32(sums);
    tokens.sums[index] = sum;
    tokens.scales[index] = grid.scale;
    tokens.totals[index] = static_cast<float>(sum) * grid.scale;
  }
}

// Zeros for the missing token of the last pair.
void fill_pair(const Tokens& tokens) {
  int8_t* half = tokens.pairs + tokens.count / 2 * tokens.slices * kSlice * 2 + 8;
  for (int64_t slice = 0; slice < tokens.slices; slice++) store_half({}, half + slice * kSlice * 2);
}

template <bool kPairs>
void quantize_tokens(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens) {
  for (int64_t token = first; token < first + count; token++) {
    quantize_token<kPairs>(x + token * width, width, token, tokens);
  }
  if (kPairs && first + count == tokens.count && tokens.count % 2 == 1) fill_pair(tokens);
}

}  // namespace
}  // namespace edgec::linear
