// A vector of floats for AVX-512, AVX2, NEON and anything else: GCC's and Clang's vector extensions, with intrinsics
// only where the extensions cannot express the instruction (fused multiply-add, maximum, half precision, widening).
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace edgec {

#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif

using Vec = float __attribute__((vector_size(kWidth * 4)));
using Ints = int32_t __attribute__((vector_size(kWidth * 4)));
using Words = uint32_t __attribute__((vector_size(kWidth * 4)));
using Vec4 = float __attribute__((vector_size(16)));
#if defined(__aarch64__)
using Half = __fp16;
#elif !defined(__F16C__)
using Half = _Float16;  // x86-64 without F16C: GCC 12 or Clang 15.
#endif

inline Vec load(const float* from) {
  Vec value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void store(float* to, Vec value) {
  std::memcpy(to, &value, sizeof(value));
}

inline Vec broadcast(float value) {
  return value - Vec{};
}

// a * b + c, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

inline Vec max(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#elif defined(__aarch64__)
  return vmaxq_f32(a, b);
#else
  return a > b ? a : b;
#endif
}

inline Vec min(Vec a, Vec b) {
  return -max(-a, -b);
}

// Rounds to the nearest integer, halves to the even one.
inline Vec round_even(Vec x) {
#if defined(__AVX512F__)
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__aarch64__)
  return vrndnq_f32(x);
#else
  for (int i = 0; i < kWidth; i++) x[i] = __builtin_rintf(x[i]);
  return x;
#endif
}

// kWidth float16 values.
inline Vec load_half(const uint16_t* from) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__aarch64__)
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
  using Halves = Half __attribute__((vector_size(kWidth * 2)));
  Halves value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_convertvector(value, Vec);
#endif
}

// Rounds to nearest even.
inline void store_half(uint16_t* to, Vec value) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(value)));
#else
  using Halves = Half __attribute__((vector_size(kWidth * 2)));
  const Halves half = __builtin_convertvector(value, Halves);
  std::memcpy(to, &half, sizeof(half));
#endif
}

inline float half_to_float(uint16_t bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  Half value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

inline uint16_t float_to_half(float value) {
#if defined(__F16C__)
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
#else
  const Half half = value;
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof(bits));
  return bits;
#endif
}

inline void halves_to_floats(const uint16_t* from, int count, float* to) {
  int i = 0;
#if defined(__F16C__)
  for (; i + 4 <= count; i += 4) {
    _mm_storeu_ps(to + i, _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i))));
  }
#elif defined(__aarch64__)
  for (; i + 4 <= count; i += 4) store(to + i, load_half(from + i));
#endif
  for (; i < count; i++) to[i] = half_to_float(from[i]);
}

// kWidth bytes, each in the low end of a lane. Compilers widen so few bytes one by one unless told how.
inline Ints widen(const int8_t* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<Ints>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return reinterpret_cast<Ints>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(__aarch64__)
  int32_t four;
  std::memcpy(&four, from, sizeof(four));
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)))));
#else
  return Ints{from[0], from[1], from[2], from[3]};
#endif
}

// kWidth signed bytes.
inline Vec load_bytes(const int8_t* from) {
  return __builtin_convertvector(widen(from), Vec);
}

struct Pair {
  Vec first;
  Vec second;
};

// 2 * kWidth 4-bit integers q, two per byte, as scale * q + offset: the low nibbles first, then the high ones.
inline Pair load_nibbles(const uint8_t* from, float scale, float offset) {
#if defined(__AVX512F__)
  const __m512 integers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 values = fma(integers, broadcast(scale), broadcast(offset));
  // The look-up reads the lowest four bits of each lane.
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return {_mm512_permutexvar_ps(bytes, values), _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values)};
#else
  const Ints bytes = widen(reinterpret_cast<const int8_t*>(from));
  const Vec low = __builtin_convertvector(bytes & 15, Vec), high = __builtin_convertvector(bytes >> 4 & 15, Vec);
  return {fma(low, broadcast(scale), broadcast(offset)), fma(high, broadcast(scale), broadcast(offset))};
#endif
}

}  // namespace edgec
