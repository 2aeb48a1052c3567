// The kernel for AVX-512-VNNI: tiles of two blocks, with products of bytes added up in 32 bits by one instruction.
#if defined(__x86_64__)

// gcc 12 takes the operands that these functions leave undefined for mistakes.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstring>

#include "isa.h"
#include "kernel.h"
#include "plain.h"

EDGEC_BEGIN_ISA("avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")

#include "x86_vectors512.h"
// After the vectors.
#include "x86_codes.h"
#include "decode_vectors.h"
#include "float_tile.h"
#include "x86_quantize.h"

namespace edgec::linear {
namespace {

constexpr int kVnniTokens = 6;

inline Ints add_products(Ints sum, Ints codes, Ints four) {
  return _mm512_dpbusd_epi32(sum, codes, four);
}

inline Ints shifted_up(Ints x, Ints count) {
  return _mm512_sllv_epi32(x, count);
}

}  // namespace
}  // namespace edgec::linear

#include "x86_vnni.h"
// After the products.
#include "x86_tile.h"
// After the tile.
#include "x86_multiply.h"

EDGEC_END_ISA

namespace edgec::linear {

extern const Kernel kAvx512Vnni;
const Kernel kAvx512Vnni = {"avx512vnni", Layout::kRows16, false, quantize, multiply, multiply_floats};

}  // namespace edgec::linear

#endif
