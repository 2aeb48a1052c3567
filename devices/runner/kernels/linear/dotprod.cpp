// The kernel for dotprod: few tokens with sdot on the codes as they are stored, more with codes rearranged so that four
// values of a token are one element.
#if defined(__aarch64__)

#include <cstring>

#include "arm64.h"
#include "neon.h"
#include "plain.h"

EDGEC_BEGIN_ISA(EDGEC_FEATURES)

#include "neon_codes.h"
#include "neon_dot.h"
#include "neon_ends.h"
#include "neon_quantize.h"

namespace edgec::linear {
namespace {

constexpr int kMostTokens = 4;
// From so many tokens on it pays to unpack a block only once.
constexpr int64_t kPanelTokens = 9;

// arrange() gives values 8 * part .. 8 * part + 7 of a slice: four values of rows 0..3 and of rows 4..7, then the next four.
template <class Codes>
struct Stored {
  static constexpr int kBelow = Codes::kBelow, kSliceBytes = Codes::kSliceBytes;

  static EDGEC_PART void arrange(const uint8_t* slice, int part, int8x16_t (&w)[4]) {
    int8x16_t v[4];
    Codes::unpack(slice, part, v);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
      const int32x4_t even = vreinterpretq_s32_s8(v[2 * half]), odd = vreinterpretq_s32_s8(v[2 * half + 1]);
      w[half] = vreinterpretq_s8_s32(vuzp1q_s32(even, odd));
      w[half + 2] = vreinterpretq_s8_s32(vuzp2q_s32(even, odd));
    }
  }
};

template <class Codes>
struct Panel {
  static constexpr int kBelow = Codes::kBelow, kSliceBytes = 256;

  static EDGEC_PART void arrange(const uint8_t* slice, int part, int8x16_t (&w)[4]) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) w[i] = load_bytes(slice + part * 64 + i * 16);
  }
};

template <class Codes>
void fill_panel(const Rows& rows, uint8_t* panel) {
  const uint8_t* codes = rows.codes;
  for (int64_t group = 0; group < rows.groups; group++, codes += rows.code_gap) {
    for (int64_t slice = 0; slice < rows.slices; slice++, codes += Codes::kSliceBytes, panel += 256) {
#pragma GCC unroll 4
      for (int part = 0; part < 4; part++) {
        int8x16_t w[4];
        Stored<Codes>::arrange(codes, part, w);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) vst1q_u8(panel + part * 64 + i * 16, vreinterpretq_u8_s8(w[i]));
      }
    }
  }
}

// Vector h of a token's sums: rows 4h .. 4h + 3.
template <int kTokens>
EDGEC_PART void add_half(const int8x16_t (&even)[4], const int8x16_t (&odd)[4], const int8_t* values, int64_t stride,
                         int32x4_t (&sums)[kTokens][2]) {
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
    const int8x16_t q = vld1q_s8(values + t * stride);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      sums[t][h] = vdotq_laneq_s32(sums[t][h], even[h], q, 0);
      sums[t][h] = vdotq_laneq_s32(sums[t][h], even[h + 2], q, 1);
      sums[t][h] = vdotq_laneq_s32(sums[t][h], odd[h], q, 2);
      sums[t][h] = vdotq_laneq_s32(sums[t][h], odd[h + 2], q, 3);
    }
  }
}

template <class Source, int kTokens>
EDGEC_PART void element_slice(const uint8_t* slice, const int8_t* values, int64_t stride,
                              int32x4_t (&sums)[kTokens][2]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    int8x16_t even[4], odd[4];
    Source::arrange(slice, half * 2, even);
    Source::arrange(slice, half * 2 + 1, odd);
    add_half<kTokens>(even, odd, values + half * 16, stride, sums);
  }
}

template <bool kCentred>
EDGEC_PART int32x4_t full_start(const Rows& rows, const int32_t* sum) {
  if constexpr (kCentred) return vdupq_n_s32(0);
  return vmulq_n_s32(vld1q_dup_s32(sum), rows.start);
}

template <class Source, int kTokens, bool kCentred>
void element_tile(const Rows& rows, const TokenTile& tokens) {
  Eight floats[kTokens];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) floats[t] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  const uint8_t *codes = rows.codes, *scales = rows.scales;
  const int8_t* values = tokens.values;
  for (int64_t group = 0; group < rows.groups; group++) {
    int32x4_t sums[kTokens][2];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) {
      sums[t][0] = sums[t][1] = full_start<kCentred>(rows, tokens.sums + t * rows.groups + group);
    }
    int64_t left = rows.slices;
    do {
      element_slice<Source, kTokens>(codes, values, tokens.stride, sums);
      codes += Source::kSliceBytes;
      values += kSlice;
    } while (--left > 0);
    const Eight eight = group_scales(scales);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) {
      floats[t].low = vfmaq_f32(floats[t].low, whole_floats<Source::kBelow>(sums[t][0]), eight.low);
      floats[t].high = vfmaq_f32(floats[t].high, whole_floats<Source::kBelow>(sums[t][1]), eight.high);
    }
    codes += rows.code_gap;
    scales += rows.scale_gap;
  }
  const RowEnds ends = row_ends(rows);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) store_token(ends, tokens, t, floats[t]);
}

template <class Source, bool kCentred>
void element_tiles(const Rows& rows, const Request& request, int64_t index) {
  int64_t tiles = (request.token_count + kMostTokens - 1) / kMostTokens;
  for (int64_t done = 0; done < request.token_count; tiles--) {
    const int64_t size = (request.token_count - done + tiles - 1) / tiles;
    const TokenTile tile = tokens_of(request, index, done, size);
    if (size == 2) element_tile<Source, 2, kCentred>(rows, tile);
    if (size == 3) element_tile<Source, 3, kCentred>(rows, tile);
    if (size == 4) element_tile<Source, 4, kCentred>(rows, tile);
    done += size;
  }
}

template <class Codes, bool kCentred>
void multiply_block(const Rows& rows, const Request& request, int64_t index, uint8_t* panel) {
  const int64_t count = request.token_count;
  const TokenTile tile = tokens_of(request, index, 0, count);
  if (count == 1) return dot_tile<Codes, 1, kCentred>(rows, tile);
  if (count == 2) return dot_tile<Codes, 2, kCentred>(rows, tile);
  if (count == 3) return dot_tile<Codes, 3, kCentred>(rows, tile);
  if (panel == nullptr) return element_tiles<Stored<Codes>, kCentred>(rows, request, index);
  fill_panel<Codes>(rows, panel);
  Rows unpacked = rows;
  unpacked.codes = panel;
  unpacked.code_gap = 0;
  element_tiles<Panel<Codes>, kCentred>(unpacked, request, index);
}

template <class Codes, bool kCentred>
void multiply_blocks(const Request& request) {
  const bool often = request.token_count >= kPanelTokens;
  uint8_t* panel = often ? panel_memory(request.tokens.slices * 256) : nullptr;
  for (int64_t index = 0; index < request.blocks; index++) {
    multiply_block<Codes, kCentred>(rows_of(request.matrix, request.first_block + index), request, index, panel);
  }
}

}  // namespace
}  // namespace edgec::linear

#include "neon_multiply.h"

EDGEC_END_ISA

namespace edgec::linear {

extern const Kernel kDotprod;
const Kernel kDotprod = {"dotprod", Layout::kRows8, false, quantize_tokens<false>, multiply_tiles};

}  // namespace edgec::linear

#endif
