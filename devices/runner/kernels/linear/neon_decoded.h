// Blocks whose scales are decoded before they are multiplied; part of the source file of an instruction set, after
// EDGEC_BEGIN_ISA.
#pragma once

#include "decode.h"
#include "neon_ends.h"

namespace edgec::linear {
namespace {

// The rows of a block with its decoded scales.
inline Rows with_decoded(const Rows& rows, const DecodedBlocks<8>& decoded) {
  Rows result = rows;
  result.scales = reinterpret_cast<const uint8_t*>(decoded.scales());
  return result;
}

// Adds minimums [slice][8], each times the total of a token's slice, to the results of one token.
inline void add_token_minimums(const float* minimums, const float* totals, int64_t slices, float* out) {
  float32x4_t low = vld1q_f32(out), high = vld1q_f32(out + 4);
  for (int64_t slice = 0; slice < slices; slice++, minimums += 8) {
    const float32x4_t total = vld1q_dup_f32(totals + slice);
    low = vfmaq_f32(low, vld1q_f32(minimums), total);
    high = vfmaq_f32(high, vld1q_f32(minimums + 4), total);
  }
  vst1q_f32(out, low);
  vst1q_f32(out + 4, high);
}

// Adds what the minimums of some blocks give to the results of all tokens; `out` is the first block's of the first token.
inline void add_decoded_minimums(const DecodedBlocks<8>& decoded, int64_t blocks, const Request& request, float* out) {
  if (decoded.minimums() == nullptr) return;
  const int64_t slices = request.tokens.slices;
  for (int64_t i = 0; i < blocks * request.token_count; i++) {
    const int64_t block = i / request.token_count, token = i % request.token_count;
    add_token_minimums(decoded.minimums() + block * decoded.block_minimums(),
                       request.tokens.totals + (request.first_token + token) * slices, slices,
                       out + token * request.stride + block * 8);
  }
}

// Calls multiply(rows, tokens) for every block, with its decoded scales where it has such.
template <Shares kShares, typename MultiplyBlock>
void multiply_block_by_block(const Request& request, TokenTile tokens, const MultiplyBlock& multiply) {
  const Matrix& matrix = request.matrix;
  Rows rows = first_rows(matrix, request.first_block);
  for (int64_t i = 0; i < request.blocks; i++, tokens.out += 8) {
    if constexpr (kShares == Shares::kDecoded || kShares == Shares::kHalf) {
      const DecodedBlocks<8> decoded(matrix, matrix.block(request.first_block + i), 1);
      multiply(with_decoded(rows, decoded), tokens);
      add_decoded_minimums(decoded, 1, request, tokens.out);
    } else {
      multiply(rows, tokens);
    }
    to_next_block<kShares>(rows, matrix.block_bytes());
  }
}

}  // namespace
}  // namespace edgec::linear
