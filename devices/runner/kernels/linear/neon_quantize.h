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

Grid grid_of(const float* x, int64_t width) {
  float copy[kSlice];
  float32x4_t low[8], high[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) low[i] = high[i] = vdupq_n_f32(0);
  for (int64_t at = 0; at < width; at += kSlice) {
    const float* slice = slice_of(x + at, width - at, copy);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      const float32x4_t four = vld1q_f32(slice + i * 4);
      low[i] = vminq_f32(low[i], four);
      high[i] = vmaxq_f32(high[i], four);
    }
  }
#pragma GCC unroll 8
  for (int i = 1; i < 8; i++) {
    low[0] = vminq_f32(low[0], low[i]);
    high[0] = vmaxq_f32(high[0], high[i]);
  }
  return grid_between(vminvq_f32(low[0]), vmaxvq_f32(high[0]));
}

EDGEC_PART int8x16_t quantized(const float* x, float inverse, int16x8_t zero) {
  int32x4_t whole[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) whole[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i * 4), inverse));
  const int16x8_t low = vaddq_s16(vqmovn_high_s32(vqmovn_s32(whole[0]), whole[1]), zero);
  const int16x8_t high = vaddq_s16(vqmovn_high_s32(vqmovn_s32(whole[2]), whole[3]), zero);
  return vqmovn_high_s16(vqmovn_s16(low), high);
}

// Zeros from byte `left` on.
EDGEC_PART int8x16_t cut(int8x16_t bytes, int64_t left) {
  static constexpr uint8_t kPlaces[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint8x16_t kept = vcltq_u8(vld1q_u8(kPlaces), vdupq_n_u8(static_cast<uint8_t>(left < 0 ? 0 : left)));
  return vandq_s8(bytes, vreinterpretq_s8_u8(kept));
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
  const Grid grid = grid_of(x, width);
  const int16x8_t zero = vdupq_n_s16(static_cast<int16_t>(grid.zero));
  int8_t* values = tokens.values + token * tokens.slices * kSlice;
  int8_t* pairs = kPairs ? tokens.pairs + token / 2 * tokens.slices * kSlice * 2 + token % 2 * 8 : nullptr;
  for (int64_t slice = 0; slice < tokens.slices; slice++) {
    const int64_t at = slice * kSlice, left = width - at;
    const float* floats = slice_of(x + at, left, copy);
    SliceBytes bytes = {{quantized(floats, grid.inverse, zero), quantized(floats + 16, grid.inverse, zero)}};
    if (left < kSlice) bytes = {{cut(bytes.v[0], left), cut(bytes.v[1], left - 16)}};
    vst1q_s8(values + at, bytes.v[0]);
    vst1q_s8(values + at + 16, bytes.v[1]);
    if constexpr (kPairs) store_half(bytes, pairs + at * 2);
    const int8x16_t ones = vdupq_n_s8(1);
    const int32x4_t sums = vdotq_s32(vdotq_s32(vdupq_n_s32(0), bytes.v[0], ones), bytes.v[1], ones);
    tokens.sums[token * tokens.slices + slice] = vaddvq_s32(sums);
  }
  tokens.scales[token] = grid.scale;
  tokens.zeros[token] = grid.zero;
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
