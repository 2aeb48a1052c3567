// The end of a group and of a row; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include "arm64.h"
#include "neon.h"

namespace edgec::linear {
namespace {

// The next block's rows.
EDGEC_PART void to_next_block(Rows& rows, int64_t block_bytes) {
  rows.codes += block_bytes;
  rows.sums += block_bytes;
  if (rows.row_scales == nullptr) {
    rows.scales += block_bytes;
  } else {
    rows.row_scales += block_bytes;
  }
}

// The tokens from `done` on, which begin `skipped` bytes after the first.
EDGEC_PART TokenTile rest_of(const TokenTile& all, int64_t groups, int64_t done, int64_t skipped) {
  TokenTile rest = all;
  rest.values += skipped;
  rest.sums += done * groups;
  rest.zeros += done;
  rest.scales += done;
  rest.count -= done;
  rest.out += done * all.out_stride;
  return rest;
}

// 8 rows.
struct Eight {
  float32x4_t low, high;
};

EDGEC_PART Eight load_floats(const uint8_t* from) {
  return {vreinterpretq_f32_u8(vld1q_u8(from)), vreinterpretq_f32_u8(vld1q_u8(from + 16))};
}

// A group's scales, from bfloat16.
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

// What the sums of 8 rows are multiplied with, and the row sums.
struct RowEnds {
  Eight factors, sums;
};

EDGEC_PART RowEnds row_ends(const Rows& rows) {
  RowEnds ends = {{vdupq_n_f32(rows.step), vdupq_n_f32(rows.step)}, load_floats(rows.sums)};
  if (rows.row_scales != nullptr) {
    const Eight scales = load_floats(rows.row_scales);
    ends.factors = {vmulq_f32(ends.factors.low, scales.low), vmulq_f32(ends.factors.high, scales.high)};
  }
  return ends;
}

EDGEC_PART void store_token(const RowEnds& ends, const TokenTile& tokens, int64_t token, Eight sums) {
  const float zero = tokens.zeros[token], scale = tokens.scales[token];
  const float32x4_t low = vmulq_f32(sums.low, ends.factors.low), high = vmulq_f32(sums.high, ends.factors.high);
  float* out = tokens.out + token * tokens.out_stride;
  vst1q_f32(out, vmulq_n_f32(vfmsq_n_f32(low, ends.sums.low, zero), scale));
  vst1q_f32(out + 4, vmulq_n_f32(vfmsq_n_f32(high, ends.sums.high, zero), scale));
}

}  // namespace
}  // namespace edgec::linear
