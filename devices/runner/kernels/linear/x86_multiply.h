// The loops around tiles. Include after x86_tile.h.
#pragma once

#include "kernel.h"

namespace edgec::linear {
namespace {

constexpr int64_t kTokenBlock = 96;  // tokens that stay in a cache while all rows pass by

struct Work {
  const Matrix& matrix;
  int64_t first_block;
  int64_t blocks;
  const Tokens& tokens;
  const int32_t* sums;
  float* out;  // of first_token
  int64_t first_token;
  int64_t stride;
};

inline Tile tile_at(const Work& work, int64_t block, int64_t token) {
  return {&work.matrix,
          work.matrix.block(work.first_block + block),
          work.tokens.values + token * work.tokens.slices * kSlice,
          work.tokens.slices * kSlice,
          work.sums + token * work.matrix.groups(),
          work.tokens.scales + token,
          work.tokens.zeros + token,
          work.out + (token - work.first_token) * work.stride + block * kBlockRows,
          work.stride};
}

template <int kBits, int kParts, int kTokens>
inline void multiply_tile(const Tile& tile, int64_t count) {
  if (count == kTokens) return Tiles<kBits, kTokens, kParts>::multiply(tile);
  if constexpr (kTokens > 1) multiply_tile<kBits, kParts, kTokens - 1>(tile, count);
}

// Tokens first..end - 1, in tiles of about the same size.
template <int kBits, int kParts>
inline void multiply_tokens(const Work& work, int64_t block, int64_t first, int64_t end) {
  constexpr int kMost = Products<kBits>::kMostTokens;
  for (int64_t left = end - first; left > 0;) {
    const int64_t tiles = (left + kMost - 1) / kMost, count = (left + tiles - 1) / tiles;
    multiply_tile<kBits, kParts, kMost>(tile_at(work, block, end - left), count);
    left -= count;
  }
}

template <int kBits>
inline void multiply_blocks(const Work& work, int64_t first, int64_t end) {
  int64_t block = 0;
  if constexpr (kTileBlocks > 1) {
    for (; block + kTileBlocks <= work.blocks; block += kTileBlocks) {
      multiply_tokens<kBits, kVectors>(work, block, first, end);
    }
  }
  for (; block < work.blocks; block++) multiply_tokens<kBits, kVectors / kTileBlocks>(work, block, first, end);
}

inline void multiply_bits(const Work& work, int64_t first, int64_t end) {
  if (work.matrix.bits == 2) return multiply_blocks<2>(work, first, end);
  if (work.matrix.bits == 3) return multiply_blocks<3>(work, first, end);
  if (work.matrix.bits == 4) return multiply_blocks<4>(work, first, end);
  multiply_blocks<8>(work, first, end);
}

inline void multiply(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                     const int32_t* sums, int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const Work work{matrix, first_block, blocks, tokens, sums, out, first_token, stride};
  for (int64_t first = first_token; first < first_token + token_count; first += kTokenBlock) {
    const int64_t left = first_token + token_count - first;
    multiply_bits(work, first, first + (left < kTokenBlock ? left : kTokenBlock));
  }
}

}  // namespace
}  // namespace edgec::linear
