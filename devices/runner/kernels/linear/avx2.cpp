// The kernel for AVX2: bytes multiplied to sums of 16 bits, which hold as many products as their codes' bits allow.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "isa.h"
#include "kernel.h"
#include "plain.h"

EDGEC_BEGIN_ISA("avx2,fma")

#include "x86_vectors256.h"
// After the vectors.
#include "x86_codes.h"
#include "float_tile.h"
#include "x86_quantize.h"

namespace edgec::linear {
namespace {

// Sums of pairs of products. A sum of 16 bits holds `kChunk` slices of 16 products each.
template <int kBits>
struct Products {
  static constexpr int kPlanes = 1, kMostTokens = 5, kChunk = 1 << (4 - kBits);
  static constexpr bool kWide = false;

  static inline bool is_simple(const Matrix& matrix) { return matrix.group_slices() <= kChunk; }

  static inline void read(const uint8_t* slice, int n, Ints* codes) { *codes = codes_at<kBits>(slice, n); }

  static inline Ints add(Ints sum, Ints codes, Ints four) {
    Ints added = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, four));
    // Otherwise gcc adds products to each other first, and spills them: 1.8 times slower.
    asm("" : "+x"(added));
    return added;
  }

  static inline Ints steps(int step) { return _mm256_set1_epi16(static_cast<int16_t>(step)); }

  static inline Ints total(const Ints* sums, Ints steps) { return _mm256_madd_epi16(sums[0], steps); }
};

// A pair of products of 8 bits exceeds 16 bits: a code's halves are multiplied apart.
template <>
struct Products<8> {
  static constexpr int kPlanes = 2, kMostTokens = 2, kChunk = 1;
  static constexpr bool kWide = false;

  static inline bool is_simple(const Matrix&) { return false; }

  static inline void read(const uint8_t* slice, int n, Ints* codes) {
    const Ints whole = codes_at<8>(slice, n);
    codes[0] = and_all(whole, 15);
    codes[1] = and_all(shifted(whole, 4), 15);
  }

  static inline Ints add(Ints sum, Ints codes, Ints four) { return Products<4>::add(sum, codes, four); }

  static inline Ints steps(int) { return _mm256_set1_epi16(16); }

  static inline Ints total(const Ints* sums, Ints steps) {
    return plus(_mm256_madd_epi16(sums[0], _mm256_set1_epi16(1)), _mm256_madd_epi16(sums[1], steps));
  }
};

}  // namespace
}  // namespace edgec::linear

#include "x86_tile.h"
// After the tile.
#include "x86_multiply.h"

EDGEC_END_ISA

namespace edgec::linear {

MultiplyFloats multiply_floats_with_avx2;
void multiply_floats_with_avx2(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                               int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  multiply_floats(matrix, first_block, blocks, tokens, first_token, token_count, out, stride);
}

extern const Kernel kAvx2;
const Kernel kAvx2 = {"avx2", Layout::kRows16, false, quantize, multiply, multiply_floats_with_avx2};

}  // namespace edgec::linear

#endif
