// Kernel::multiply for tiles of arm64: part of the source file of an instruction set, after its multiply_blocks().
#pragma once

#include "arm64.h"
#include "neon_codes.h"
#include "plain.h"

namespace edgec::linear {
namespace {

template <class Codes, bool kCentred>
void multiply_groups(const Request& request) {
  if (request.matrix.group == kSlice) return multiply_blocks<Codes, kCentred, true>(request);
  multiply_blocks<Codes, kCentred, false>(request);
}

// Codes that have 0 in their middle, or else (no matrix of a model so far) not the fastest tiles.
template <class Codes>
void multiply_codes(const Request& request, bool centred) {
  return centred ? multiply_groups<Codes, true>(request) : multiply_blocks<Codes, false, false>(request);
}

void multiply_tiles(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                    const int32_t* sums, int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  if (!fits_tiles(matrix)) {
    return multiply_plainly(matrix, first_block, blocks, tokens, sums, first_token, token_count, out, stride);
  }
  const Request request = {matrix, first_block, blocks, tokens, sums, first_token, token_count, out, stride};
  const bool centred = matrix.offset == matrix.step << (matrix.bits - 1);
  switch (matrix.bits) {
    case 2: return multiply_groups<Codes<2>, false>(request);
    case 3: return multiply_codes<Codes<3>>(request, centred);
    case 4: return multiply_codes<Codes<4>>(request, centred);
    default: return multiply_blocks<Codes<8>, false, false>(request);
  }
}

}  // namespace
}  // namespace edgec::linear
