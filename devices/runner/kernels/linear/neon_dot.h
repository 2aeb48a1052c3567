// A tile of few tokens by 8 rows with sdot; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include "neon_codes.h"
#include "neon_ends.h"

namespace edgec::linear {
namespace {

// Sums of a token: lanes 0 and 1 of vector p are two parts of row 2p's, lanes 2 and 3 of row 2p + 1's.
template <bool kCentred>
EDGEC_PART int32x4_t halved_start(const Rows& rows, int32_t sum) {
  if constexpr (kCentred) return vdupq_n_s32(0);
  return vreinterpretq_s32_u64(vdupq_n_u64(static_cast<uint32_t>(rows.start * sum)));
}

template <class Codes, int kTokens>
EDGEC_PART void dot_slice(const uint8_t* slice, const int8_t* values, int64_t stride, int32x4_t (&sums)[kTokens][4]) {
#pragma GCC unroll 4
  for (int part = 0; part < 4; part++) {
    int8x16_t v[4];
    Codes::unpack(slice, part, v);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) {
      const int8x8_t eight = vld1_s8(values + t * stride + part * 8);
      const int8x16_t q = vcombine_s8(eight, eight);
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++) sums[t][p] = vdotq_s32(sums[t][p], v[p], q);
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

template <class Codes, int kTokens, bool kCentred>
void dot_tile(const Rows& rows, const TokenTile& tokens) {
  Eight floats[kTokens];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) floats[t] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  const uint8_t *codes = rows.codes, *scales = rows.scales;
  const int8_t* values = tokens.values;
  for (int64_t group = 0; group < rows.groups; group++) {
    int32x4_t sums[kTokens][4];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++) sums[t][p] = halved_start<kCentred>(rows, tokens.sums[t * rows.groups + group]);
    }
    int64_t left = rows.slices;
    do {
      dot_slice<Codes, kTokens>(codes, values, tokens.stride, sums);
      codes += Codes::kSliceBytes;
      values += kSlice;
    } while (--left > 0);
    dot_group_end<Codes, kTokens>(scales, sums, floats);
    codes += rows.code_gap;
    scales += rows.scale_gap;
  }
  const RowEnds ends = row_ends(rows);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) store_token(ends, tokens, t, floats[t]);
}

}  // namespace
}  // namespace edgec::linear
