// The kernel for AVX-VNNI: AVX2's tiles, with products of bytes added up in 32 bits by one instruction.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "isa.h"
#include "kernel.h"
#include "plain.h"

#define EDGEC_VECTORS "x86_vectors256.h"
#define EDGEC_PRODUCTS "x86_vnni.h"
// AVX-512 has the same instruction: tests use it where a processor lacks AVX-VNNI.
#if defined(EDGEC_AVX_VNNI_BY_AVX512)
#define EDGEC_DOT_PRODUCT _mm256_dpbusd_epi32
EDGEC_BEGIN_ISA("avx2,fma,f16c,avx512f,avx512vl,avx512vnni")
#else
#define EDGEC_DOT_PRODUCT _mm256_dpbusd_avx_epi32
EDGEC_BEGIN_ISA("avx2,fma,f16c,avxvnni")
#endif

#include "x86_multiply.h"
#include "x86_quantize.h"

namespace edgec::linear {
namespace {

inline Ints add_products(Ints sum, Ints codes, Ints four) {
  return EDGEC_DOT_PRODUCT(sum, codes, four);
}

}  // namespace
}  // namespace edgec::linear

EDGEC_END_ISA

namespace edgec::linear {

Multiply multiply_floats_with_avx2;  // avx2.cpp
extern const Kernel kAvxVnni;
const Kernel kAvxVnni = {"avxvnni", Layout::kRows16, false, quantize, multiply, multiply_floats_with_avx2};

}  // namespace edgec::linear

#endif
