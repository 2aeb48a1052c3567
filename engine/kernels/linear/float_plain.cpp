// Tokens in float on any processor.
#include "isa.h"
#include "plain.h"

#if !defined(__aarch64__)
#define EDGEC_VECTORS "plain_floats.h"
#define EDGEC_FLOAT_CODES EDGEC_VECTORS
#endif
#include "float_tile.h"

namespace edgec::linear {

void multiply_floats_plainly(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                             int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  multiply_floats(matrix, first_block, blocks, tokens, first_token, token_count, out, stride);
}

}  // namespace edgec::linear
