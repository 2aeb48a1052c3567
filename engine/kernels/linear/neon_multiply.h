// Kernel::multiply for tiles of arm64: part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include "arm64.h"
#include "neon_codes.h"
#include "plain.h"

namespace edgec::linear {
namespace {

// Of the source file.
template <class Codes, bool kCentred, Shares kShares>
void multiply_blocks(const Request& request);

template <class Codes, bool kCentred>
void multiply_shared(const Request& request) {
  const Matrix& matrix = request.matrix;
  if constexpr (Codes::kBelow == 2 && kCentred) {
    if (matrix.has_halves()) return multiply_blocks<Codes, kCentred, Shares::kHalf>(request);
  }
  if (matrix.decoded()) return multiply_blocks<Codes, kCentred, Shares::kDecoded>(request);
  // 5 and 6 bits are decoded (matrix.h).
  if constexpr (Codes::kBelow != 2 && Codes::kBelow != 3) {
    if (matrix.scales == Scales::kRow) return multiply_blocks<Codes, kCentred, Shares::kRow>(request);
    if (matrix.group == kSlice) return multiply_blocks<Codes, kCentred, Shares::kSlice>(request);
    multiply_blocks<Codes, kCentred, Shares::kRun>(request);
  }
}

// Codes that have 0 in their middle, or else a start for every slice.
template <class Codes>
void multiply_codes(const Request& request, bool centred) {
  return centred ? multiply_shared<Codes, true>(request) : multiply_shared<Codes, false>(request);
}

void multiply_tiles(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                    int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const Request request = {matrix, first_block, blocks, tokens, first_token, token_count, out, stride};
  const bool centred = matrix.offset == matrix.step << (matrix.bits - 1);
  switch (matrix.bits) {
    case 2: return multiply_shared<Codes<2>, false>(request);
    case 3: return multiply_codes<Codes<3>>(request, centred);
    case 4: return multiply_codes<Codes<4>>(request, centred);
    case 5: return multiply_codes<Codes<5>>(request, centred);
    case 6: return multiply_codes<Codes<6>>(request, centred);
    default: return multiply_codes<Codes<8>>(request, centred);
  }
}

}  // namespace
}  // namespace edgec::linear
