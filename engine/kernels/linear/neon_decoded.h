// Blocks whose scales are decoded before they are multiplied; part of the source file of an instruction set, after
// EDGEC_BEGIN_ISA.
#pragma once

#include "neon_vectors.h"

#include "decode_vectors.h"
#include "minimums.h"
#include "neon_ends.h"

namespace edgec::linear {
namespace {

// The rows of a block with its decoded scales.
inline Rows with_decoded(const Rows& rows, const Decoded& decoded) {
  Rows result = rows;
  result.scales = reinterpret_cast<const uint8_t*>(decoded.scales());
  return result;
}

// Adds what the minimums of some blocks give to the results of all tokens; `out` is the first block's of the first token.
inline void add_decoded_minimums(const Decoded& decoded, int64_t blocks, const Request& request, float* out) {
  if (decoded.minimums() == nullptr) return;
  const int64_t slices = request.tokens.slices;
  for (int64_t i = 0; i < blocks; i++) {
    add_minimums(decoded.minimums() + i * decoded.block_minimums(), request.tokens.totals + request.first_token * slices,
                 slices, request.token_count, out + i * kBlockRows, request.stride);
  }
}

// Calls multiply(rows, tokens) for every block, with its decoded scales where it has such.
template <Shares kShares, typename MultiplyBlock>
void multiply_block_by_block(const Request& request, TokenTile tokens, const MultiplyBlock& multiply) {
  const Matrix& matrix = request.matrix;
  Rows rows = first_rows(matrix, request.first_block);
  for (int64_t i = 0; i < request.blocks; i++, tokens.out += 8) {
    if constexpr (kShares == Shares::kDecoded || kShares == Shares::kHalf) {
      const Decoded decoded(matrix, matrix.block(request.first_block + i), 1);
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
