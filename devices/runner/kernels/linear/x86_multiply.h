// The loops around tiles. Include after x86_tile.h.
#pragma once

#include "kernel.h"

namespace edgec::linear {
namespace {

constexpr int64_t kTokenBlock = 96;      // tokens that stay in a cache while all rows pass by
constexpr int64_t kMostStarts = 1 << 15;  // of a block of tokens: as many as a row has groups
constexpr int64_t kMostSlices = 32;      // of a group, and of unpacked ones
constexpr int64_t kUnpackFrom = 16;      // tokens
constexpr int64_t kFewTokens = 4;        // foresees_reading()
constexpr int64_t kWindowBytes = 4096;   // of a block's codes, for all tokens before the next: in the first cache

// Some tokens and all rows.
struct Work {
  const Matrix& matrix;
  const Tokens& tokens;
  const int32_t* starts;
  int64_t first;  // token
  int64_t count;
  float* out;  // of the first token
  int64_t stride;
  bool asks;  // memory for what comes next
};

template <int kBits, bool kUnpacked, int kParts, int kTokens>
inline void multiply_tile(const Window& window, int64_t count, bool simple, bool row) {
  if (count == kTokens) {
    using Tile = Tiles<kBits, kUnpacked, kTokens, kParts>;
    if constexpr (!kUnpacked) {
      if (row) return Tile::multiply_row(window);
    }
    if constexpr (kBits != 8) {
      return simple ? Tile::template multiply_groups<true>(window) : Tile::template multiply_groups<false>(window);
    }
  }
  if constexpr (kTokens > 1) multiply_tile<kBits, kUnpacked, kParts, kTokens - 1>(window, count, simple, row);
}

// All tokens by a window of the first one, in tiles of about the same size.
template <int kBits, bool kUnpacked, int kParts>
inline void multiply_tokens(const Work& work, Window window) {
  constexpr int kMost = Products<kBits>::kMostTokens;
  const bool simple = Products<kBits>::is_simple(work.matrix), row = work.matrix.group == 0;
  for (int64_t left = work.count; left > 0;) {
    const int64_t tiles = (left + kMost - 1) / kMost, count = (left + tiles - 1) / tiles;
    multiply_tile<kBits, kUnpacked, kParts, kMost>(window, count, simple, row);
    window.values += count * window.token_bytes;
    window.starts += count * window.token_starts;
    window.results += count * kTileRows;
    window.ahead = nullptr;
    left -= count;
  }
}

// The codes of one block as bytes, [slice][vector][kLine].
template <int kBits>
inline void unpack(const Window& window, uint8_t* codes) {
  for (int64_t group = 0; group < window.groups; group++) {
    for (int64_t slice = 0; slice < window.slices; slice++) {
      const uint8_t* from = window.codes + group * window.code_bytes + slice * kBits * kLine;
      EDGEC_UNROLL
      for (int i = 0; i < kSliceVectors * kBlockVectors; i++) {
        store(codes + i * kVectorBytes, codes_at<kBits>(from + i % kBlockVectors * kVectorBytes, i / kBlockVectors));
      }
      codes += kSliceVectors * kLine;
    }
  }
}

template <int kBits, int kParts>
inline void multiply_unpacked(const Work& work, Window window) {
  static_assert(kParts == kBlockVectors);
  constexpr int64_t kSliceBytes = kSliceVectors * kLine;
  alignas(64) uint8_t codes[kMostSlices * kSliceBytes];
  unpack<kBits>(window, codes);
  window.codes = codes;
  window.code_bytes = window.slices * kSliceBytes;
  multiply_tokens<kBits, true, kParts>(work, window);
}

template <int kBits, int kParts>
inline void multiply_window(const Work& work, const Window& window, bool unpacked) {
  if constexpr (kUnpacks && kBits != 2) {
    if (unpacked) return multiply_unpacked<kBits, kParts>(work, window);
  }
  multiply_tokens<kBits, false, kParts>(work, window);
}

template <int kBits, int kParts>
inline void multiply_groups(const Work& work, const Window& all) {
  const bool unpacked = kUnpacks && kBits != 2 && work.count >= kUnpackFrom;
  const int64_t slices = kWindowBytes * (unpacked ? 1 : 2) / (kBits * kLine);
  const int64_t most = slices > all.slices ? slices / all.slices : 1;
  Window window = all;
  for (int64_t first = 0; first < all.groups; first += most) {
    const bool last = first + most >= all.groups;
    window.groups = last ? all.groups - first : most;
    window.ahead = last || all.ahead == nullptr ? all.ahead : window.codes + most * all.group_bytes;
    multiply_window<kBits, kParts>(work, window, unpacked);
    window.codes += most * all.group_bytes;
    window.scales += most * all.group_bytes;
    window.values += most * all.slices * kSlice;
    window.starts += most;
  }
}

// Zero points and the tokens' scales.
template <int kParts>
inline void finish(const Work& work, const float* row_sums, int64_t next_sums, const float* results, float* out) {
  for (int64_t i = 0; i < work.count; i++) {
    const Floats zero = same_floats(-work.tokens.zeros[work.first + i]);
    const Floats scale = same_floats(work.tokens.scales[work.first + i]);
    for (int part = 0; part < kParts; part++) {
      const Floats sums = load_floats(row_sums + beside(part, kVectorRows, next_sums));
      const Floats result = load_floats(results + i * kTileRows + part * kVectorRows);
      store_floats(out + i * work.stride + part * kVectorRows, times(fused(zero, sums, result), scale));
    }
  }
}

template <int kBits, int kParts>
inline void multiply_block(const Work& work, const uint8_t* block, float* out) {
  const Matrix& matrix = work.matrix;
  const int64_t codes = matrix.group_slices() * kBits * kLine, token_bytes = work.tokens.slices * kSlice;
  const auto* tail = reinterpret_cast<const float*>(block + matrix.groups() * matrix.group_bytes());
  const auto* row_scales = reinterpret_cast<const uint8_t*>(tail + kBlockRows);
  for (int part = 0; part < kParts && work.asks; part++) {
    prefetch(reinterpret_cast<const uint8_t*>(tail + beside(part, kVectorRows, matrix.block_bytes() / 4)));
  }
  alignas(64) float results[kTokenBlock * kTileRows];
  const Window window{block,
                      matrix.group_bytes(),
                      matrix.block_bytes(),
                      matrix.group == 0 ? row_scales : block + codes,
                      work.asks ? block + kParts / kBlockVectors * matrix.block_bytes() : nullptr,
                      matrix.group_bytes(),
                      matrix.block_bytes(),
                      matrix.groups(),
                      matrix.group_slices(),
                      matrix.step,
                      work.tokens.values + work.first * token_bytes,
                      token_bytes,
                      work.starts,
                      matrix.groups(),
                      results};
  if (kBits == 8 || matrix.group == 0) {
    multiply_tokens<kBits, false, kParts>(work, window);
  } else if constexpr (kBits != 8) {
    std::memset(results, 0, work.count * kTileRows * sizeof(float));
    multiply_groups<kBits, kParts>(work, window);
  }
  finish<kParts>(work, tail, matrix.block_bytes() / 4, results, out);
}

template <int kBits>
inline void multiply_blocks(const Work& work, int64_t first, int64_t blocks) {
  int64_t i = 0;
  for (; i + kTileBlocks <= blocks && work.count > kNarrow; i += kTileBlocks) {
    multiply_block<kBits, kVectors>(work, work.matrix.block(first + i), work.out + i * kBlockRows);
  }
  if constexpr (kTileBlocks > 1) {
    for (; i < blocks; i++) {
      multiply_block<kBits, kBlockVectors>(work, work.matrix.block(first + i), work.out + i * kBlockRows);
    }
  }
}

inline void multiply_bits(const Work& work, int64_t first, int64_t blocks) {
  if (work.matrix.bits == 2) return multiply_blocks<2>(work, first, blocks);
  if (work.matrix.bits == 3) return multiply_blocks<3>(work, first, blocks);
  if (work.matrix.bits == 4) return multiply_blocks<4>(work, first, blocks);
  multiply_blocks<8>(work, first, blocks);
}

inline void multiply(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                     const int32_t* sums, int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const int64_t groups = matrix.groups(), fitting = kMostStarts / groups;
  const int64_t most = fitting < kTokenBlock ? fitting : kTokenBlock;
  int32_t starts[kMostStarts];
  for (int64_t done = 0; done < token_count; done += most) {
    const int64_t first = first_token + done, count = token_count - done < most ? token_count - done : most;
    for (int64_t i = 0; i < count * groups; i++) starts[i] = -matrix.offset * sums[first * groups + i];
    const bool asks = count > kFewTokens || !foresees_reading();
    multiply_bits({matrix, tokens, starts, first, count, out + done * stride, stride, asks}, first_block, blocks);
  }
}

}  // namespace
}  // namespace edgec::linear
