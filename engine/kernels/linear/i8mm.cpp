// The kernel for i8mm: pairs of tokens by pairs of rows with smmla, one token with sdot.
#if defined(__aarch64__)

#define EDGEC_WITH_I8MM
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

// 12 vectors of whole sums, 12 of float sums, 4 of codes and one of tokens stay in 32 registers.
constexpr int kMostPairs = 3;
// From so many tokens on it pays to unpack a block only once: 4 bits are unpacked faster than the others.
template <class Codes>
constexpr int64_t kPanelTokens = Codes::kBelow == 4 ? 17 : 13;

// Sums of a pair of tokens: lanes of vector p are rows 2p and 2p + 1 of the first token, then of the second.
EDGEC_PART int32x4_t paired(const int32_t* sum, int64_t second) {
  return vcombine_s32(vld1_dup_s32(sum), vld1_dup_s32(sum + second));
}

#if defined(__clang__)
constexpr int kLoadedAtOnce = 0;
[[maybe_unused]] EDGEC_PART void load_values(const int8_t*, int, int8x16_t (&)[2]) {}
#else
// GCC loads half a slice of a pair by one instruction only where it is told to; three pairs leave no registers for that.
constexpr int kLoadedAtOnce = 2;
EDGEC_PART void load_values(const int8_t* pair, int half, int8x16_t (&q)[2]) {
  const auto& slice = *reinterpret_cast<const int8_t(*)[2 * kSlice]>(pair);
  asm("ldp %q0, %q1, [%2, %3]" : "=w"(q[0]), "=w"(q[1]) : "r"(pair), "i"(half * 32), "m"(slice));
}
#endif

template <class Sums, int kPairs>
EDGEC_PART void pair_half(const uint8_t* slice, int half, const int8_t* values, int64_t stride,
                          int32x4_t (&sums)[kPairs][4]) {
  const typename Sums::Half loaded = Sums::load(slice, half);
  int8x16_t both[kPairs][2];
  if constexpr (kPairs == kLoadedAtOnce) {
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; pair++) load_values(values + pair * stride, half, both[pair]);
  }
#pragma GCC unroll 2
  for (int part = 0; part < 2; part++) {
    int8x16_t v[4];
    loaded.unpack(part, v);
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; pair++) {
      const int8_t* from = values + pair * stride + half * 32 + part * 16;
      const int8x16_t q = kPairs == kLoadedAtOnce ? both[pair][part] : vld1q_s8(from);
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++) sums[pair][p] = vmmlaq_s32(sums[pair][p], q, v[p]);
    }
  }
}

template <int kLane>
EDGEC_PART float32x4_t twice(float32x4_t scales) {
  return vreinterpretq_f32_f64(vdupq_laneq_f64(vreinterpretq_f64_f32(scales), kLane));
}

template <class Sums, Shares kShares, int kVector>
EDGEC_PART void add_whole(const int32x4_t (&sums)[4], float32x4_t token, const float32x4_t (&scales)[4],
                          float32x4_t (&floats)[4]) {
  const float32x4_t whole = whole_floats<Sums::kBelow[kVector]>(sums[kVector]);
  if constexpr (kShares == Shares::kRow) {
    floats[kVector] = vfmaq_f32(floats[kVector], whole, token);
  } else {
    floats[kVector] = vfmaq_f32(floats[kVector], vmulq_f32(whole, token), scales[kVector]);
  }
}

template <class Sums, Shares kShares, int kPairs>
EDGEC_PART void end_pairs(const Eight& eight, const TokenTile& tokens, int64_t slice, int32x4_t (&sums)[kPairs][4],
                          float32x4_t (&floats)[kPairs][4]) {
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; pair++) Sums::end(sums[pair]);
  const float32x4_t scales[4] = {twice<0>(eight.low), twice<1>(eight.low), twice<0>(eight.high), twice<1>(eight.high)};
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; pair++) {
    const int64_t second = 2 * pair + 1 < tokens.count ? tokens.slices : 0;
    const float* first = tokens.scales + 2 * pair * tokens.slices + slice;
    const float32x4_t token = vcombine_f32(vld1_dup_f32(first), vld1_dup_f32(first + second));
    add_whole<Sums, kShares, 0>(sums[pair], token, scales, floats[pair]);
    add_whole<Sums, kShares, 1>(sums[pair], token, scales, floats[pair]);
    add_whole<Sums, kShares, 2>(sums[pair], token, scales, floats[pair]);
    add_whole<Sums, kShares, 3>(sums[pair], token, scales, floats[pair]);
  }
}

EDGEC_PART float32x4_t token_of_pair(float32x4_t even, float32x4_t odd, int token) {
  const float64x2_t a = vreinterpretq_f64_f32(even), b = vreinterpretq_f64_f32(odd);
  return vreinterpretq_f32_f64(token == 0 ? vtrn1q_f64(a, b) : vtrn2q_f64(a, b));
}

template <int kPairs>
EDGEC_PART void store_pairs(const Rows& rows, const TokenTile& tokens, const float32x4_t (&floats)[kPairs][4]) {
  const Eight factors = row_factors(rows);
  const TokenTile own = tokens;  // Through the reference, every store of a result might change it.
#pragma GCC unroll 8
  for (int t = 0; t < 2 * kPairs; t++) {
    const float32x4_t(&f)[4] = floats[t / 2];
    if (t + 1 < 2 * kPairs || t < own.count) {
      store_token(factors, own, t, {token_of_pair(f[0], f[1], t % 2), token_of_pair(f[2], f[3], t % 2)});
    }
  }
}

template <class Sums, int kPairs>
EDGEC_PART void begin_pairs(const TokenTile& tokens, int64_t slice, int32x4_t factors, int32x4_t (&sums)[kPairs][4]) {
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; pair++) {
    const int64_t second = 2 * pair + 1 < tokens.count ? tokens.slices : 0;
    Sums::begin(paired(tokens.sums + 2 * pair * tokens.slices + slice, second), factors, sums[pair]);
  }
}

// A slice, or one half after the other.
template <class Sums, Shares kShares, int kPairs>
EDGEC_PART void pair_slice(const TokenTile& tokens, int64_t slice, int32x4_t factors, const uint8_t*& codes,
                           const uint8_t*& scales, const int8_t* values, float32x4_t (&floats)[kPairs][4]) {
  int32x4_t sums[kPairs][4];
  begin_pairs<Sums>(tokens, slice, factors, sums);
  pair_half<Sums, kPairs>(codes, 0, values, tokens.stride, sums);
  if constexpr (kShares == Shares::kHalf) {
    end_pairs<Sums, kShares, kPairs>(scales_of<kShares, 0>(nullptr, scales), tokens, slice, sums, floats);
    begin_pairs<Sums>(tokens, slice, factors, sums);
  }
  pair_half<Sums, kPairs>(codes, 1, values, tokens.stride, sums);
  codes += Sums::kSliceBytes;
  const Eight eight = scales_of<kShares, kShares == Shares::kHalf ? 1 : 0>(codes, scales);
  end_pairs<Sums, kShares, kPairs>(eight, tokens, slice, sums, floats);
  to_next_slice<kShares>(scales);
}

template <class Sums, int kPairs, Shares kShares>
EDGEC_TILE void pair_tile(const Rows& rows, const TokenTile& tokens) {
  float32x4_t floats[kPairs][4];
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; pair++) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) floats[pair][p] = vdupq_n_f32(0);
  }
  const uint8_t *codes = rows.codes, *scales = rows.scales;
  const int8_t* values = tokens.values;
  const int32x4_t factors = Sums::factors(rows);
  int64_t slice = 0;
  for (int64_t runs = rows.runs; runs != 0; runs--) {
    int64_t left = kShares == Shares::kSlice ? 1 : rows.slices;
    do {
      pair_slice<Sums, kShares>(tokens, slice, factors, codes, scales, values, floats);
      values += 2 * kSlice;
      slice++;
    } while (--left != 0);
    if constexpr (stand_in_runs(kShares)) {
      codes += kScaleBytes;
      scales += rows.run_bytes;
    }
  }
  store_pairs<kPairs>(rows, tokens, floats);
}

template <class Codes, bool kCentred, Shares kShares>
EDGEC_PART void one_tile(const Rows& rows, const TokenTile& tokens, int64_t pairs) {
  using Sums = Single<Codes, kCentred>;
  if (pairs == 1) return pair_tile<typename FewTokens<Codes, kCentred, kShares>::Sums, 1, kShares>(rows, tokens);
  if (pairs == 2) return pair_tile<Sums, 2, kShares>(rows, tokens);
  pair_tile<Sums, 3, kShares>(rows, tokens);
}

template <class Codes, bool kCentred, Shares kShares>
void multiply_pairs(const Rows& rows, const TokenTile& tokens) {
  const int64_t pairs = (tokens.count + 1) / 2;
  if (pairs <= kMostPairs) return one_tile<Codes, kCentred, kShares>(rows, tokens, pairs);
  int64_t tiles = (pairs + kMostPairs - 1) / kMostPairs;
  for (int64_t done = 0; done < pairs; tiles--) {
    const int64_t size = (pairs - done + tiles - 1) / tiles;
    one_tile<Codes, kCentred, kShares>(rows, rest_of(tokens, 2 * done, done * tokens.stride), size);
    done += size;
  }
}

template <class Codes, bool kCentred, Shares kShares>
void multiply_block(const Rows& rows, const TokenTile& tokens, uint8_t* panel) {
  if (panel == nullptr) return multiply_pairs<Codes, kCentred, kShares>(rows, tokens);
  fill_panel<Codes, kShares>(rows, panel);
  multiply_pairs<Panel<Codes>, kCentred, kShares>(rows_of_panel<kShares>(rows, panel), tokens);
}

template <class Codes, bool kCentred, Shares kShares>
void multiply_blocks(const Request& request) {
  if (request.token_count == 1) return dot_tokens<Codes, kCentred, kShares, 1, 2>(request);
  const bool unpack = request.matrix.bits < 8 && request.token_count >= kPanelTokens<Codes>;
  uint8_t* panel = unpack ? panel_memory(request.matrix) : nullptr;
  multiply_block_by_block<kShares>(request, all_pairs(request), [&](const Rows& rows, const TokenTile& tokens) {
    multiply_block<Codes, kCentred, kShares>(rows, tokens, panel);
  });
}

}  // namespace
}  // namespace edgec::linear

EDGEC_END_ISA

namespace edgec::linear {

extern const Kernel kI8mm;
const Kernel kI8mm = {"i8mm", Layout::kRows8, true, quantize_tokens<true>, multiply_tiles, multiply_floats_plainly};

}  // namespace edgec::linear

#endif
