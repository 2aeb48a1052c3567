// The loops around tiles. Include after EDGEC_BEGIN_ISA.
#pragma once

#include "decode_vectors.h"
#include "kernel.h"
#include "minimums.h"
#include "x86_tile.h"

namespace edgec::linear {
namespace {

constexpr int64_t kTokenBlock = 96;      // tokens that stay in a cache while all rows pass by
constexpr int64_t kMostStarts = 1 << 15;  // of a block of tokens: as many as a row has slices
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

  Shares shares() const {
    if (matrix.has_halves()) return Shares::kHalf;
    if (matrix.decoded()) return Shares::kSlice;
    return matrix.scales == Scales::kRow ? Shares::kRow : Shares::kRun;
  }
};

// One tile. Few forms have kernels for every number of bits (matrix.h).
template <int kBits, class Tile>
inline void multiply_runs(const Window& window, Shares shares) {
  if (shares == Shares::kSlice) return Tile::template multiply_runs<true, Shares::kSlice>(window);
  if constexpr (kBits == 6) return Tile::template multiply_runs<true, Shares::kHalf>(window);
  if constexpr (kBits != 5 && kBits != 6) {
    const bool runs = shares == Shares::kRun;
    if (kBits != 2 || window.step == 1) {
      return runs ? Tile::template multiply_runs<true, Shares::kRun>(window)
                  : Tile::template multiply_runs<true, Shares::kRow>(window);
    }
  }
  if constexpr (kBits == 2) {
    return shares == Shares::kRun ? Tile::template multiply_runs<false, Shares::kRun>(window)
                                  : Tile::template multiply_runs<false, Shares::kRow>(window);
  }
}

template <int kBits, bool kUnpacked, int kParts, int kTokens>
inline void multiply_tile(const Window& window, int64_t count, Shares shares) {
  if (count == kTokens) return multiply_runs<kBits, Tiles<kBits, kUnpacked, kTokens, kParts>>(window, shares);
  if constexpr (kTokens > 1) multiply_tile<kBits, kUnpacked, kParts, kTokens - 1>(window, count, shares);
}

// All tokens by a window of the first one, in tiles of about the same size.
template <int kBits, bool kUnpacked, int kParts>
inline void multiply_tokens(const Work& work, Window window) {
  constexpr int kMost = Products<kBits>::kMostTokens;
  for (int64_t left = work.count; left > 0;) {
    const int64_t tiles = (left + kMost - 1) / kMost, count = (left + tiles - 1) / tiles;
    multiply_tile<kBits, kUnpacked, kParts, kMost>(window, count, work.shares());
    window.values += count * window.token_bytes;
    window.starts += count * window.token_starts;
    window.token_scales += count * window.token_slices;
    window.out += count * window.stride;
    window.ahead = nullptr;
    left -= count;
  }
}

// The codes of one block as bytes, [slice][vector][kLine].
template <int kBits>
inline void unpack(const Window& window, uint8_t* codes) {
  for (int64_t run = 0; run < window.runs; run++) {
    for (int64_t slice = 0; slice < window.slices; slice++) {
      const uint8_t* from = window.codes + run * window.code_bytes + slice * kBits * kLine;
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
  if constexpr (kUnpacks && kBits != 2 && kBits != 8) {
    if (unpacked) return multiply_unpacked<kBits, kParts>(work, window);
  }
  multiply_tokens<kBits, false, kParts>(work, window);
}

template <int kBits, int kParts>
inline void multiply_windows(const Work& work, const Window& all) {
  const bool unpacked = kUnpacks && kBits != 2 && kBits != 8 && work.count >= kUnpackFrom;
  const int64_t slices = kWindowBytes * (unpacked ? 1 : 2) / (kBits * kLine);
  const int64_t most = slices > all.slices ? slices / all.slices : 1;
  const int64_t parts = work.matrix.has_halves() ? 2 : 1;
  Window window = all;
  for (int64_t first = 0; first < all.runs; first += most) {
    const bool last = first + most >= all.runs;
    window.runs = last ? all.runs - first : most;
    window.ahead = last || all.ahead == nullptr ? all.ahead : window.codes + most * all.run_bytes;
    multiply_window<kBits, kParts>(work, window, unpacked);
    window.codes += most * all.run_bytes;
    window.scales += most * all.run_bytes;
    window.values += most * all.slices * kSlice;
    window.starts += most * all.slices * parts;
    window.token_scales += most * all.slices;
    if (window.decoded != nullptr) window.decoded += most * all.slices * parts * kBlockRows;
  }
}

template <int kParts>
inline void scale_rows(const Work& work, const uint8_t* scales, float* out) {
  for (int64_t i = 0; i < work.count; i++) {
    for (int part = 0; part < kParts; part++) {
      float* to = out + i * work.stride + part * kVectorRows;
      const uint8_t* from = scales + beside(part, kVectorRows * 4, work.matrix.block_bytes());
      store_floats(to, times(load_floats(to), load_floats(reinterpret_cast<const float*>(from))));
    }
  }
}

template <int kBits, int kParts>
inline void multiply_runs_of(const Work& work, const uint8_t* block, const Decoded* decoded, float* out) {
  const Matrix& matrix = work.matrix;
  // Where a row is one run, a slice stands for a run.
  const bool whole = matrix.scales != Scales::kBfloat16;
  const int64_t slice_bytes = kBits * kLine, token_bytes = work.tokens.slices * kSlice;
  const int64_t slices = whole ? 1 : matrix.run_slices(), run_bytes = whole ? slice_bytes : matrix.run_bytes();
  for (int64_t i = 0; i < work.count; i++) std::memset(out + i * work.stride, 0, kParts * kVectorRows * sizeof(float));
  const Window window{block,
                      run_bytes,
                      matrix.block_bytes(),
                      block + slices * slice_bytes,
                      decoded == nullptr ? nullptr : decoded->scales(),
                      decoded == nullptr ? 0 : decoded->block_scales() * 4,
                      work.asks ? block + kParts / kBlockVectors * matrix.block_bytes() : nullptr,
                      run_bytes,
                      matrix.block_bytes(),
                      whole ? matrix.slices() : matrix.runs(),
                      slices,
                      matrix.step,
                      work.tokens.values + work.first * token_bytes,
                      token_bytes,
                      work.starts,
                      work.tokens.slices * (matrix.has_halves() ? 2 : 1),
                      work.tokens.scales + work.first * work.tokens.slices,
                      work.tokens.slices,
                      out,
                      work.stride};
  multiply_windows<kBits, kParts>(work, window);
}

template <int kBits, int kParts>
inline void multiply_block(const Work& work, const uint8_t* block, float* out) {
  const Matrix& matrix = work.matrix;
  if (matrix.decoded()) {
    const Decoded decoded(matrix, block, kParts / kBlockVectors);
    multiply_runs_of<kBits, kParts>(work, block, &decoded, out);
    const float* totals = work.tokens.totals + work.first * work.tokens.slices;
    for (int i = 0; i < kParts / kBlockVectors && decoded.minimums() != nullptr; i++) {
      add_minimums(decoded.minimums() + i * decoded.block_minimums(), totals, work.tokens.slices, work.count,
                   out + i * kBlockRows, work.stride);
    }
    return;
  }
  const uint8_t* tail = matrix.tail(block);
  const bool by_row = matrix.scales == Scales::kRow;
  for (int part = 0; part < kParts && work.asks && by_row; part++) {
    prefetch(tail + beside(part, kVectorRows * 4, matrix.block_bytes()));
  }
  multiply_runs_of<kBits, kParts>(work, block, nullptr, out);
  if (by_row) scale_rows<kParts>(work, tail, out);
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
  if (work.matrix.bits == 5) return multiply_blocks<5>(work, first, blocks);
  if (work.matrix.bits == 6) return multiply_blocks<6>(work, first, blocks);
  multiply_blocks<8>(work, first, blocks);
}

// Starts of `count` tokens from `first` on: what codes of 0 add to the sums of slices, or of their halves.
inline void fill_starts(const Matrix& matrix, const Tokens& tokens, int64_t first, int64_t count, int32_t* starts) {
  const int64_t slices = count * tokens.slices, at = first * tokens.slices;
  if (!matrix.has_halves()) {
    for (int64_t i = 0; i < slices; i++) starts[i] = -matrix.offset * tokens.sums[at + i];
    return;
  }
  for (int64_t i = 0; i < slices; i++) {
    const int8_t* values = tokens.values + (at + i) * kSlice;
    int32_t sum = 0;
    for (int j = 0; j < kSlice / 2; j++) sum += values[j];
    starts[2 * i] = -matrix.offset * sum;
    starts[2 * i + 1] = -matrix.offset * (tokens.sums[at + i] - sum);
  }
}

inline void multiply(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                     int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const int64_t fitting = kMostStarts / (tokens.slices * (matrix.has_halves() ? 2 : 1));
  const int64_t most = fitting < kTokenBlock ? fitting : kTokenBlock;
  int32_t starts[kMostStarts];
  for (int64_t done = 0; done < token_count; done += most) {
    const int64_t first = first_token + done, count = token_count - done < most ? token_count - done : most;
    fill_starts(matrix, tokens, first, count, starts);
    const bool asks = count > kFewTokens || !foresees_reading();
    multiply_bits({matrix, tokens, starts, first, count, out + done * stride, stride, asks}, first_block, blocks);
  }
}

}  // namespace
}  // namespace edgec::linear
