// A tile of few tokens by 8 or 16 rows with sdot; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include "neon_decoded.h"
#include "neon_sums.h"

EDGEC_BEGIN_ORDER

namespace edgec::linear {
namespace {

// Sums of a token: lanes 0 and 1 of vector p are two parts of row 2p's, lanes 2 and 3 of row 2p + 1's.
template <int kTokens>
using DotSums = int32x4_t[kTokens][4];

EDGEC_PART int32x4_t halved(const int32_t* sum) {
  return vreinterpretq_s32_u64(vdupq_n_u64(static_cast<uint32_t>(*sum)));
}

// 8 values of a token, for both rows of a vector.
EDGEC_PART int8x16_t load_twice(const int8_t*& values) {
  int8x16_t twice;
  asm("ld1r {%0.2d}, [%1], #8" : "=w"(twice), "+r"(values) : "m"(*reinterpret_cast<const int8_t(*)[8]>(values)));
  return twice;
}

// 8 of them.
template <class Half, int kTokens>
EDGEC_PART void dot_part(const Half& half, int part, const int8x16_t (&q)[kTokens], DotSums<kTokens>& sums) {
  int8x16_t v[4];
  half.unpack(part, v);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) sums[t][p] = vdotq_s32(sums[t][p], v[p], q[t]);
  }
}

// 16 values of each row. One token is loaded before the codes of each block, several where they are multiplied: there are
// registers for no more.
template <class Sums, int kTokens, int kBlocks>
EDGEC_PART void dot_half(const uint8_t* const (&codes)[kBlocks], int half, const int8_t* (&values)[kTokens],
                         DotSums<kTokens> (&sums)[kBlocks]) {
  if constexpr (kTokens == 1) {
    const int8x16_t first[1] = {load_twice(values[0])}, second[1] = {load_twice(values[0])};
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; b++) {
      const typename Sums::Half loaded = Sums::load(codes[b], half);
      dot_part(loaded, 0, first, sums[b]);
      dot_part(loaded, 1, second, sums[b]);
    }
  } else {
    typename Sums::Half loaded[kBlocks];
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; b++) loaded[b] = Sums::load(codes[b], half);
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
      int8x16_t q[kTokens];
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; t++) q[t] = load_twice(values[t]);
#pragma GCC unroll 2
      for (int b = 0; b < kBlocks; b++) dot_part(loaded[b], part, q, sums[b]);
    }
  }
}


constexpr int lesser(int a, int b) {
  return a < b ? a : b;
}

template <class Sums, int kTokens, int kBlocks>
EDGEC_PART void begin_slice(const TokenTile& tokens, int64_t slice, int32x4_t factors,
                            DotSums<kTokens> (&sums)[kBlocks]) {
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
    const int32x4_t sum = halved(tokens.sums + t * tokens.slices + slice);
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; b++) Sums::begin(sum, factors, sums[b][t]);
  }
}

template <class Sums, Shares kShares, int kTokens>
EDGEC_PART void end_slice(const TokenTile& tokens, int64_t slice, const Eight& scales, DotSums<kTokens>& sums,
                          Eight (&floats)[kTokens]) {
  constexpr auto& kBelow = Sums::kBelow;
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) {
    Sums::end(sums[t]);
    const int32x4_t low = vpaddq_s32(sums[t][0], sums[t][1]), high = vpaddq_s32(sums[t][2], sums[t][3]);
    const float* scale = tokens.scales + t * tokens.slices + slice;
    floats[t].low = added<kShares>(floats[t].low, whole_floats<lesser(kBelow[0], kBelow[1])>(low), scale, scales.low);
    floats[t].high = added<kShares>(floats[t].high, whole_floats<lesser(kBelow[2], kBelow[3])>(high), scale, scales.high);
  }
}

// The factors of four rows of which two are too large by a power of two still.
template <int kFirst, int kSecond>
EDGEC_PART float32x4_t levelled(float32x4_t factors) {
  if constexpr (kFirst == kSecond) return factors;
  constexpr float kLow = 1.0f / (1 << (kFirst - lesser(kFirst, kSecond)));
  constexpr float kHigh = 1.0f / (1 << (kSecond - lesser(kFirst, kSecond)));
  const float32x4_t powers = {kLow, kLow, kHigh, kHigh};
  return vmulq_f32(factors, powers);
}

template <class Sums, int kTokens>
EDGEC_PART void end_rows(const Rows& rows, const TokenTile& tokens, const Eight (&floats)[kTokens]) {
  constexpr auto& kBelow = Sums::kBelow;
  Eight factors = row_factors(rows);
  factors.low = levelled<kBelow[0], kBelow[1]>(factors.low);
  factors.high = levelled<kBelow[2], kBelow[3]>(factors.high);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) store_token(factors, tokens, t, floats[t]);
}

// A slice, or one half after the other.
template <class Sums, Shares kShares, int kTokens, int kBlocks>
EDGEC_PART void dot_slice(const TokenTile& tokens, int64_t slice, int32x4_t factors, const uint8_t* (&codes)[kBlocks],
                          const uint8_t* (&scales)[kBlocks], const int8_t* (&values)[kTokens],
                          Eight (&floats)[kBlocks][kTokens]) {
  DotSums<kTokens> sums[kBlocks];
  begin_slice<Sums, kTokens, kBlocks>(tokens, slice, factors, sums);
  dot_half<Sums, kTokens, kBlocks>(codes, 0, values, sums);
  if constexpr (kShares == Shares::kHalf) {
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; b++) {
      end_slice<Sums, kShares, kTokens>(tokens, slice, scales_of<kShares, 0>(nullptr, scales[b]), sums[b], floats[b]);
    }
    begin_slice<Sums, kTokens, kBlocks>(tokens, slice, factors, sums);
  }
  dot_half<Sums, kTokens, kBlocks>(codes, 1, values, sums);
#pragma GCC unroll 2
  for (int b = 0; b < kBlocks; b++) {
    codes[b] += Sums::kSliceBytes;
    const Eight eight = scales_of<kShares, kShares == Shares::kHalf ? 1 : 0>(codes[b], scales[b]);
    end_slice<Sums, kShares, kTokens>(tokens, slice, eight, sums[b], floats[b]);
    to_next_slice<kShares>(scales[b]);
  }
}

// kBlocks blocks, `block_bytes` apart, and their decoded scales, `decoded_bytes` apart.
template <class Sums, int kTokens, int kBlocks, Shares kShares>
EDGEC_TILE void dot_tile(const Rows& rows, const TokenTile& tokens, int64_t block_bytes, int64_t decoded_bytes) {
  Eight floats[kBlocks][kTokens];
  const uint8_t *codes[kBlocks], *scales[kBlocks];
  const int8_t* values[kTokens];
#pragma GCC unroll 2
  for (int b = 0; b < kBlocks; b++) {
    codes[b] = rows.codes + b * block_bytes;
    scales[b] = kShares == Shares::kRow ? nullptr : rows.scales + b * (stand_in_runs(kShares) ? block_bytes : decoded_bytes);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; t++) floats[b][t] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; t++) values[t] = tokens.values + t * tokens.stride;
  const int32x4_t factors = Sums::factors(rows);
  int64_t slice = 0;
  for (int64_t runs = rows.runs; runs != 0; runs--) {
    int64_t left = kShares == Shares::kSlice ? 1 : rows.slices;
    do {
      dot_slice<Sums, kShares>(tokens, slice, factors, codes, scales, values, floats);
      slice++;
    } while (--left != 0);
    if constexpr (stand_in_runs(kShares)) {
#pragma GCC unroll 2
      for (int b = 0; b < kBlocks; b++) {
        codes[b] += kScaleBytes;
        scales[b] += rows.run_bytes;
      }
    }
  }
  Rows ending = rows;
  TokenTile to = tokens;
#pragma GCC unroll 2
  for (int b = 0; b < kBlocks; b++, to_next_block<kShares>(ending, block_bytes), to.out += 8) {
    end_rows<Sums, kTokens>(ending, to, floats[b]);
  }
}

// kBlocks blocks from number `block` on.
template <class Sums, int kTokens, int kBlocks, Shares kShares>
void dot_blocks(const Request& request, int64_t block, const Rows& rows, const TokenTile& tokens) {
  const int64_t block_bytes = request.matrix.block_bytes();
  if constexpr (kShares == Shares::kDecoded || kShares == Shares::kHalf) {
    const Decoded decoded(request.matrix, request.matrix.block(block), kBlocks);
    dot_tile<Sums, kTokens, kBlocks, kShares>(with_decoded(rows, decoded), tokens, block_bytes,
                                              decoded.block_scales() * 4);
    add_decoded_minimums(decoded, kBlocks, request, tokens.out);
  } else {
    dot_tile<Sums, kTokens, kBlocks, kShares>(rows, tokens, block_bytes, 0);
  }
}

// All blocks, kBlocks at a time, since these share what is loaded of the tokens.
template <class Codes, bool kCentred, Shares kShares, int kTokens, int kBlocks>
void dot_tokens(const Request& request) {
  using Sums = typename FewTokens<Codes, kCentred, kShares>::Sums;
  const int64_t block_bytes = request.matrix.block_bytes();
  TokenTile tokens = all_tokens(request);
  Rows rows = first_rows(request.matrix, request.first_block);
  int64_t done = 0;
  for (; done + kBlocks <= request.blocks; done += kBlocks, tokens.out += 8 * kBlocks) {
    dot_blocks<Sums, kTokens, kBlocks, kShares>(request, request.first_block + done, rows, tokens);
    to_next_block<kShares>(rows, kBlocks * block_bytes);
  }
  if (done < request.blocks) {
    dot_blocks<Sums, kTokens, 1, kShares>(request, request.first_block + done, rows, tokens);
  }
}

}  // namespace
}  // namespace edgec::linear

EDGEC_END_ORDER
