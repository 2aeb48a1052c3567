// A tile of few tokens by 8 rows with sdot; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include "neon_codes.h"
#include "neon_ends.h"

namespace edgec::linear {
namespace {

// Sums of a token: lanes 0 and 1 of vector p are two parts of row 2p's, lanes 2 and 3 of row 2p + 1's.
template <bool kCentred>
EDGEC_PART int32x4_t halved_start(const Rows& rows, const int32_t* sum) {
  if constexpr (kCentred) return vdupq_n_s32(0);
  return vreinterpretq_s32_u64(vdupq_n_u64(static_cast<uint32_t>(rows.start * *sum)));
}

template <class Codes, int kTokens>
EDGEC_PART void dot_slice(const uint8_t* slice, const int8_t* values, int64_t stride, int32x4_t (&sums)[kTokens][4]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    int8x16_t even[4], odd[4];
    Codes::unpack(slice, half * 2, even);
    Codes::unpack(slice, half * 2 + 1, odd);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) {
      int64x2_t q = vreinterpretq_s64_s8(vld1q_s8(values + t * stride + half * 16));
      asm("" : "+w"(q));  // GCC would load its halves one by one
      const int8x16_t first = vreinterpretq_s8_s64(vdupq_laneq_s64(q, 0));
      const int8x16_t second = vreinterpretq_s8_s64(vdupq_laneq_s64(q, 1));
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++) sums[t][p] = vdotq_s32(vdotq_s32(sums[t][p], even[p], first), odd[p], second);
    }
  }
}

template <class Codes, int kTokens>
EDGEC_PART void dot_group_end(const uint8_t* at, const int32x4_t (&sums)[kTokens][4], Eight (&floats)[kTokens]) {
  const Eight scales = group_scales(at);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
    const int32x4_t low = vpaddq_s32(sums[t][0], sums[t][1]), high = vpaddq_s32(sums[t][2], sums[t][3]);
    floats[t].low = vfmaq_f32(floats[t].low, whole_floats<Codes::kBelow>(low), scales.low);
    floats[t].high = vfmaq_f32(floats[t].high, whole_floats<Codes::kBelow>(high), scales.high);
  }
}

template <class Codes, int kTokens, bool kCentred, bool kOneSlice>
EDGEC_TILE void dot_tile(const Rows& rows, const TokenTile& tokens) {
  Eight floats[kTokens];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) floats[t] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  const uint8_t *codes = rows.codes, *scales = rows.scales;
  const int8_t* values = tokens.values;
  const int32_t* starts = tokens.sums;
  for (int64_t groups = rows.groups; groups != 0; groups--, starts++) {
    int32x4_t sums[kTokens][4];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++) sums[t][p] = halved_start<kCentred>(rows, starts + t * rows.groups);
    }
    int64_t left = kOneSlice ? 1 : rows.slices;
    do {
      dot_slice<Codes, kTokens>(codes, values, tokens.stride, sums);
      codes += Codes::kSliceBytes;
      values += kSlice;
    } while (--left != 0);
    dot_group_end<Codes, kTokens>(kOneSlice ? codes : scales, sums, floats);
    codes += kScaleBytes;
    scales += rows.group_bytes;
  }
  const RowEnds ends = row_ends(rows);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) store_token(ends, tokens, t, floats[t]);
}

}  // namespace
}  // namespace edgec::linear
