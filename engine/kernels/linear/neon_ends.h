// The end of a slice and of a row; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include "arm64.h"
#include "neon.h"

namespace edgec::linear {
namespace {

// The next block's rows; decoded scales are the caller's.
template <Shares kShares>
EDGEC_PART void to_next_block(Rows& rows, int64_t block_bytes) {
  rows.codes += block_bytes;
  if constexpr (stand_in_runs(kShares)) rows.scales += block_bytes;
  if constexpr (kShares == Shares::kRow) rows.row_scales += block_bytes;
}

// The tokens from `done` on, which begin `skipped` bytes after the first.
EDGEC_PART TokenTile rest_of(const TokenTile& all, int64_t done, int64_t skipped) {
  TokenTile rest = all;
  rest.values += skipped;
  rest.sums += done * all.slices;
  rest.scales += done * all.slices;
  rest.count -= done;
  rest.out += done * all.out_stride;
  return rest;
}

constexpr int64_t kDecodedBytes = 32;  // scales of 8 rows as floats

// 8 rows.
struct Eight {
  float32x4_t low, high;
};

EDGEC_PART Eight load_floats(const uint8_t* from) {
  return {vreinterpretq_f32_u8(vld1q_u8(from)), vreinterpretq_f32_u8(vld1q_u8(from + 16))};
}

// A run's scales, from bfloat16.
EDGEC_PART Eight group_scales(const uint8_t* from) {
  const uint16x8_t stored = vreinterpretq_u16_u8(vld1q_u8(from));
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(stored), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(stored, 16))};
}

// float(sum / 2^below) of sums that are multiples of 2^below.
template <int kBelow>
EDGEC_PART float32x4_t whole_floats(int32x4_t sums) {
  if constexpr (kBelow == 0) {
    return vcvtq_f32_s32(sums);
  } else {
    return vcvtq_n_f32_s32(sums, kBelow);
  }
}

// What the sums of 8 rows are multiplied with in the end.
EDGEC_PART Eight row_factors(const Rows& rows) {
  const Eight steps = {vdupq_n_f32(rows.step), vdupq_n_f32(rows.step)};
  if (rows.row_scales == nullptr) return steps;
  const Eight scales = load_floats(rows.row_scales);
  return {vmulq_f32(steps.low, scales.low), vmulq_f32(steps.high, scales.high)};
}

EDGEC_PART void store_token(const Eight& factors, const TokenTile& tokens, int64_t token, Eight sums) {
  float* out = tokens.out + token * tokens.out_stride;
  vst1q_f32(out, vmulq_f32(sums.low, factors.low));
  vst1q_f32(out + 4, vmulq_f32(sums.high, factors.high));
}

// The sums of four rows with a slice's products; `scale` is the token's.
template <Shares kShares>
EDGEC_PART float32x4_t added(float32x4_t sums, float32x4_t whole, const float* scale, float32x4_t scales) {
  const float32x4_t token = vld1q_dup_f32(scale);
  if constexpr (kShares == Shares::kRow) {
    return vfmaq_f32(sums, whole, token);
  } else {
    return vfmaq_f32(sums, vmulq_f32(whole, token), scales);
  }
}

// The scales of a slice, or of its lower or upper half. Those of a run lie at `scales`, or where the codes of its one slice
// end; decoded ones are floats there.
template <Shares kShares, int kHalf = 0>
EDGEC_PART Eight scales_of(const uint8_t* end, const uint8_t* scales) {
  if constexpr (kShares == Shares::kRow) {
    return {vdupq_n_f32(0), vdupq_n_f32(0)};  // never read
  } else if constexpr (stand_in_runs(kShares)) {
    return group_scales(kShares == Shares::kSlice ? end : scales);
  } else {
    return load_floats(scales + kHalf * kDecodedBytes);
  }
}

// Decoded scales of the next slice.
template <Shares kShares>
EDGEC_PART void to_next_slice(const uint8_t*& scales) {
  if constexpr (kShares == Shares::kDecoded) scales += kDecodedBytes;
  if constexpr (kShares == Shares::kHalf) scales += 2 * kDecodedBytes;
}

}  // namespace
}  // namespace edgec::linear
