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

#define EDGEC_VECTORS "x86_vectors512.h"
#define EDGEC_PRODUCTS "x86_vnni.h"
EDGEC_BEGIN_ISA("avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")

#include "float_tile.h"
#include "x86_multiply.h"
#include "x86_quantize.h"

namespace edgec::linear {
namespace {

inline Ints add_products(Ints sum, Ints codes, Ints four) {
  return _mm512_dpbusd_epi32(sum, codes, four);
}

}  // namespace
}  // namespace edgec::linear

EDGEC_END_ISA

namespace edgec::linear {

extern const Kernel kAvx512Vnni;
const Kernel kAvx512Vnni = {"avx512vnni", Layout::kRows16, false, quantize, multiply, multiply_floats};

}  // namespace edgec::linear

#endif
