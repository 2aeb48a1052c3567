// One vector of floats for AVX-512, AVX2, NEON and anything else: GCC's and Clang's vector extensions, with intrinsics
// only where the extensions do not reach the instruction (fused multiply-add, maximum, half precision, widening).
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
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

// To the nearest integer, halves to the even one.
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

// kWidth signed bytes.
inline Vec load_bytes(const int8_t* from) {
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  using Bytes = int8_t __attribute__((vector_size(kWidth)));
  Bytes value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_convertvector(__builtin_convertvector(value, Ints), Vec);
#endif
}

// kWidth 4-bit integers 0..15, the low nibble of each byte first.
inline Vec load_nibbles(const uint8_t* from) {
#if defined(__AVX512F__)
  const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  const __m512i twice = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(pairs, pairs));
  const __m512i shift = _mm512_set1_epi64(int64_t{4} << 32);
  return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srlv_epi32(twice, shift), _mm512_set1_epi32(15)));
#elif defined(__AVX2__)
  int32_t packed;
  std::memcpy(&packed, from, sizeof(packed));
  const __m128i pairs = _mm_cvtsi32_si128(packed);
  const __m256i twice = _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(pairs, pairs));
  const __m256i shift = _mm256_set1_epi64x(int64_t{4} << 32);
  return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srlv_epi32(twice, shift), _mm256_set1_epi32(15)));
#else
  const Ints nibbles = {from[0] & 15, from[0] >> 4, from[1] & 15, from[1] >> 4};
  return __builtin_convertvector(nibbles, Vec);
#endif
}

// Lane i of the result is lane Index(i) of a and b side by side.
template <typename V, int... Index>
inline V shuffle(V a, V b) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, Index...);
#else
  return __builtin_shuffle(a, b, decltype(a < b){Index...});
#endif
}

namespace detail {

// The lower or upper Half lanes, repeated to fill a vector.
template <int Half, int Start, int... I>
inline Vec part(Vec value, std::integer_sequence<int, I...>) {
  return shuffle<Vec, (Start + I % Half)...>(value, value);
}

template <int Half>
inline Vec fold_add(Vec value) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  return part<Half, 0>(value, Lanes{}) + part<Half, Half>(value, Lanes{});
}

template <int Half>
inline Vec fold_max(Vec value) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  return max(part<Half, 0>(value, Lanes{}), part<Half, Half>(value, Lanes{}));
}

}  // namespace detail

// The sums of four neighbouring classes of lanes (i mod 4).
inline Vec4 sum_to_four(Vec value) {
  if constexpr (kWidth >= 16) value = detail::fold_add<kWidth / 2>(value);
  if constexpr (kWidth >= 8) value = detail::fold_add<4>(value);
  Vec4 low;
  std::memcpy(&low, &value, sizeof(low));
  return low;
}

// The sums of all lanes of four vectors.
inline Vec4 sum_each(Vec a, Vec b, Vec c, Vec d) {
  const Vec4 a4 = sum_to_four(a), b4 = sum_to_four(b), c4 = sum_to_four(c), d4 = sum_to_four(d);
  const Vec4 ab = shuffle<Vec4, 0, 4, 1, 5>(a4, b4) + shuffle<Vec4, 2, 6, 3, 7>(a4, b4);
  const Vec4 cd = shuffle<Vec4, 0, 4, 1, 5>(c4, d4) + shuffle<Vec4, 2, 6, 3, 7>(c4, d4);
  return shuffle<Vec4, 0, 1, 4, 5>(ab, cd) + shuffle<Vec4, 2, 3, 6, 7>(ab, cd);
}

inline float sum(Vec value) {
  const Vec4 four = sum_to_four(value);
  return (four[0] + four[1]) + (four[2] + four[3]);
}

inline float maximum(Vec value) {
  if constexpr (kWidth >= 16) value = detail::fold_max<kWidth / 2>(value);
  if constexpr (kWidth >= 8) value = detail::fold_max<4>(value);
  value = detail::fold_max<2>(value);
  value = detail::fold_max<1>(value);
  return value[0];
}

// 2^x with a relative error below 1e-7 for x up to 127; exactly 0 below -126. Minimax polynomial of degree 6 for the
// fraction in [-0.5, 0.5], fitted for this file.
inline Vec exp2(Vec x) {
  const Vec shifted = x + 12582912.0f;  // 1.5 * 2^23: the sum's low bits are x rounded to an integer.
  const Vec f = x - (shifted - 12582912.0f);
  Vec p = fma(f, broadcast(1.53457652e-4f), broadcast(1.33999308e-3f));
  p = fma(f, p, broadcast(9.61848913e-3f));
  p = fma(f, p, broadcast(5.55032878e-2f));
  p = fma(f, p, broadcast(2.40226469e-1f));
  p = fma(f, p, broadcast(6.93147206e-1f));
  p = fma(f, p, broadcast(1.0f));
  Ints bits, exponent;
  std::memcpy(&bits, &p, sizeof(bits));
  std::memcpy(&exponent, &shifted, sizeof(exponent));
  bits += exponent << 23;
  Vec power;
  std::memcpy(&power, &bits, sizeof(power));
  return x < -126.0f ? Vec{} : power;
}

// tanh(x) within 2e-7 of it.
inline Vec tanh(Vec x) {
  const Vec bounded = min(max(x, broadcast(-10.0f)), broadcast(10.0f));
  return 1.0f - 2.0f / (exp2(bounded * 2.88539008f) + 1.0f);  // 2 / ln 2
}

}  // namespace edgec
