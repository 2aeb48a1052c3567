// The kernel for AVX2, and tiles in float.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "isa.h"
#include "kernel.h"
#include "plain.h"

#define EDGEC_VECTORS "x86_vectors256.h"
#define EDGEC_PRODUCTS "x86_pairs.h"
EDGEC_BEGIN_ISA("avx2,fma,f16c")

#include "float_tile.h"
#include "x86_multiply.h"
#include "x86_quantize.h"

EDGEC_END_ISA

namespace edgec::linear {

Multiply multiply_floats_with_avx2;
void multiply_floats_with_avx2(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                               int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  multiply_floats(matrix, first_block, blocks, tokens, first_token, token_count, out, stride);
}

extern const Kernel kAvx2;
const Kernel kAvx2 = {"avx2", Layout::kRows16, false, quantize, multiply, multiply_floats_with_avx2};

}  // namespace edgec::linear

#endif
