// The kernel for dotprod: few tokens with sdot on the codes as they are stored, more with codes rearranged so that four
// values of a token are one element.
#if defined(__aarch64__)

#include <cstring>
#include <type_traits>

#include "arm64.h"
#include "neon.h"
#include "plain.h"

EDGEC_BEGIN_ISA(EDGEC_FEATURES)

#include "neon_codes.h"
#include "neon_decoded.h"
#include "neon_dot.h"
#include "neon_ends.h"
#include "neon_multiply.h"
#include "neon_panel.h"
#include "neon_quantize.h"

namespace edgec::linear {
namespace {

constexpr int kMostTokens = 4;
// From so many tokens on it pays to unpack a block only once.
constexpr int64_t kPanelTokens = 9;

// unpack() gives values 8 * part .. 8 * part + 7 of a slice: four values of rows 0..3 and of rows 4..7, then the next four.
template <class Codes>
struct Stored {
  static constexpr int kBelow = Codes::kBelow, kSliceBytes = Codes::kSliceBytes;

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&w)[4]) {
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

// Says that the address depends on the sums. Otherwise GCC unpacks a whole slice first and has no registers left for sums.
template <int kTokens>
EDGEC_PART void keep_order(const uint8_t*& codes, int32x4_t (&sums)[kTokens][2]) {
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) asm("" : "+r"(codes), "+w"(sums[t][0]), "+w"(sums[t][1]));
}

template <class Source, int kTokens>
EDGEC_PART void element_half(const uint8_t*& codes, int half, const int8_t* values, int64_t stride,
                             int32x4_t (&sums)[kTokens][2]) {
  int8x16_t even[4], odd[4];
  Source::unpack(codes, half * 2, even);
  Source::unpack(codes, half * 2 + 1, odd);
  add_half<kTokens>(even, odd, values + half * 16, stride, sums);
  keep_order<kTokens>(codes, sums);
}

template <bool kCentred>
EDGEC_PART int32x4_t full_start(const Rows& rows, const int32_t* sum) {
  if constexpr (kCentred) return vdupq_n_s32(0);
  return vmulq_n_s32(vld1q_dup_s32(sum), rows.start);
}

template <bool kCentred, int kTokens>
EDGEC_PART void begin_elements(const Rows& rows, const TokenTile& tokens, int64_t slice, int32x4_t (&sums)[kTokens][2]) {
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
    sums[t][0] = sums[t][1] = full_start<kCentred>(rows, tokens.sums + t * tokens.slices + slice);
  }
}

template <class Source, Shares kShares, int kTokens>
EDGEC_PART void end_elements(const TokenTile& tokens, int64_t slice, const Eight& eight,
                             const int32x4_t (&sums)[kTokens][2], Eight (&floats)[kTokens]) {
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
    const float* scale = tokens.scales + t * tokens.slices + slice;
    floats[t].low = added<kShares>(floats[t].low, whole_floats<Source::kBelow>(sums[t][0]), scale, eight.low);
    floats[t].high = added<kShares>(floats[t].high, whole_floats<Source::kBelow>(sums[t][1]), scale, eight.high);
  }
}

// A slice, or one half after the other.
template <class Source, bool kCentred, Shares kShares, int kTokens>
EDGEC_PART void element_slice(const Rows& rows, const TokenTile& tokens, int64_t slice, const uint8_t*& codes,
                              const uint8_t*& scales, const int8_t* values, Eight (&floats)[kTokens]) {
  int32x4_t sums[kTokens][2];
  begin_elements<kCentred>(rows, tokens, slice, sums);
  element_half<Source, kTokens>(codes, 0, values, tokens.stride, sums);
  if constexpr (kShares == Shares::kHalf) {
    end_elements<Source, kShares>(tokens, slice, scales_of<kShares, 0>(nullptr, scales), sums, floats);
    begin_elements<kCentred>(rows, tokens, slice, sums);
  }
  element_half<Source, kTokens>(codes, 1, values, tokens.stride, sums);
  codes += Source::kSliceBytes;
  const Eight eight = scales_of<kShares, kShares == Shares::kHalf ? 1 : 0>(codes, scales);
  end_elements<Source, kShares>(tokens, slice, eight, sums, floats);
  to_next_slice<kShares>(scales);
}

template <class Source, int kTokens, bool kCentred, Shares kShares>
EDGEC_TILE void element_tile(const Rows& rows, const TokenTile& tokens) {
  Eight floats[kTokens];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) floats[t] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  const uint8_t *codes = rows.codes, *scales = rows.scales;
  const int8_t* values = tokens.values;
  int64_t slice = 0;
  for (int64_t runs = rows.runs; runs != 0; runs--) {
    int64_t left = kShares == Shares::kSlice ? 1 : rows.slices;
    do {
      element_slice<Source, kCentred, kShares>(rows, tokens, slice, codes, scales, values, floats);
      values += kSlice;
      slice++;
    } while (--left != 0);
    if constexpr (stand_in_runs(kShares)) {
      codes += kScaleBytes;
      scales += rows.run_bytes;
    }
  }
  const Eight factors = row_factors(rows);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) store_token(factors, tokens, t, floats[t]);
}

template <class Source, bool kCentred, Shares kShares>
void multiply_elements(const Rows& rows, const TokenTile& all) {
  int64_t tiles = (all.count + kMostTokens - 1) / kMostTokens;
  for (int64_t done = 0; done < all.count; tiles--) {
    const int64_t size = (all.count - done + tiles - 1) / tiles;
    const TokenTile tile = rest_of(all, done, done * all.stride);
    if (size == 2) element_tile<Source, 2, kCentred, kShares>(rows, tile);
    if (size == 3) element_tile<Source, 3, kCentred, kShares>(rows, tile);
    if (size == 4) element_tile<Source, 4, kCentred, kShares>(rows, tile);
    done += size;
  }
}

template <class Codes, bool kCentred, Shares kShares>
void multiply_block(const Rows& rows, const TokenTile& tokens, uint8_t* panel) {
  if (panel == nullptr) return multiply_elements<Stored<Codes>, kCentred, kShares>(rows, tokens);
  fill_panel<Stored<Codes>, kShares>(rows, panel);
  multiply_elements<Panel<Codes>, kCentred, kShares>(rows_of_panel<kShares>(rows, panel), tokens);
}

template <class Codes, bool kCentred, Shares kShares>
void multiply_blocks(const Request& request) {
  if (request.token_count == 1) return dot_tokens<Codes, kCentred, kShares, 1, 2>(request);
  if (request.token_count == 2) return dot_tokens<Codes, kCentred, kShares, 2, 2>(request);
  if (request.token_count == 3) return dot_tokens<Codes, kCentred, kShares, 3, 1>(request);
  uint8_t* panel = request.token_count >= kPanelTokens ? panel_memory(request.matrix) : nullptr;
  multiply_block_by_block<kShares>(request, all_tokens(request), [&](const Rows& rows, const TokenTile& tokens) {
    multiply_block<Codes, kCentred, kShares>(rows, tokens, panel);
  });
}

}  // namespace
}  // namespace edgec::linear

EDGEC_END_ISA

namespace edgec::linear {

extern const Kernel kDotprod;
const Kernel kDotprod = {"dotprod", Layout::kRows8, false, quantize_tokens<false>, multiply_tiles, multiply_floats_plainly};

}  // namespace edgec::linear

#endif
