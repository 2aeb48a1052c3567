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

struct Pair {
  Vec first;
  Vec second;
};

// 2 * kWidth 4-bit integers q, two a byte, as scale * q + offset: the low nibbles first, then the high ones.
inline Pair load_nibbles(const uint8_t* from, float scale, float offset) {
#if defined(__AVX512F__)
  const __m512 integers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 values = fma(integers, broadcast(scale), broadcast(offset));
  // The look-up reads the lowest four bits of each lane.
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return {_mm512_permutexvar_ps(bytes, values), _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values)};
#else
  using Bytes = uint8_t __attribute__((vector_size(kWidth)));
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  const Ints wide = __builtin_convertvector(bytes, Ints);
  const Vec low = __builtin_convertvector(wide & 15, Vec), high = __builtin_convertvector(wide >> 4, Vec);
  return {fma(low, broadcast(scale), broadcast(offset)), fma(high, broadcast(scale), broadcast(offset))};
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

// Lanes Start..Start+kWidth-1 of a0 b0 a1 b1 ...
template <int Start, int... I>
inline Vec zip(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return shuffle<Vec, ((Start + I) % 2 * kWidth + (Start + I) / 2)...>(a, b);
}

// Every second lane of a and b side by side, from Start on.
template <int Start, int... I>
inline Vec unzip(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return shuffle<Vec, (Start + 2 * I)...>(a, b);
}

// In every four lanes: two of a, then two of b, from lane First of each four on.
template <int First, int... I>
inline Vec twos(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return shuffle<Vec, (I % 4 / 2 * kWidth + I / 4 * 4 + First + I % 2)...>(a, b);
}

// In every four lanes: one of a, one of b, the next of a, the next of b, from lane First of each four on.
template <int First, int... I>
inline Vec ones(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return shuffle<Vec, (I % 2 * kWidth + I / 4 * 4 + First + I % 4 / 2)...>(a, b);
}

// Lane i plus kDistance.
template <int kDistance, int... I>
inline Vec turned(Vec value, std::integer_sequence<int, I...>) {
  return shuffle<Vec, ((I + kDistance) % kWidth)...>(value, value);
}

}  // namespace detail

// a0 b0 a1 b1 ...
inline Pair zip(Pair pair) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  return {detail::zip<0>(pair.first, pair.second, Lanes{}), detail::zip<kWidth>(pair.first, pair.second, Lanes{})};
}

// Even lanes, then odd ones: what zip undoes.
inline Pair unzip(Pair pair) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  return {detail::unzip<0>(pair.first, pair.second, Lanes{}), detail::unzip<1>(pair.first, pair.second, Lanes{})};
}

// The sums of four classes of lanes (i mod 4).
inline Vec4 sum_to_four(Vec value) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(value), _mm512_extractf32x8_ps(value, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  return _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
#else
  return value;
#endif
}

// The sums of all lanes of four vectors.
inline Vec4 sum_each(Vec a, Vec b, Vec c, Vec d) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  const Vec ab = detail::ones<0>(a, b, Lanes{}) + detail::ones<2>(a, b, Lanes{});
  const Vec cd = detail::ones<0>(c, d, Lanes{}) + detail::ones<2>(c, d, Lanes{});
  return sum_to_four(detail::twos<0>(ab, cd, Lanes{}) + detail::twos<2>(ab, cd, Lanes{}));
}

inline float sum(Vec value) {
  const Vec4 four = sum_to_four(value);
  return (four[0] + four[1]) + (four[2] + four[3]);
}

inline float maximum(Vec value) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  if constexpr (kWidth >= 16) value = max(value, detail::turned<8>(value, Lanes{}));
  if constexpr (kWidth >= 8) value = max(value, detail::turned<4>(value, Lanes{}));
  value = max(value, detail::turned<2>(value, Lanes{}));
  return max(value, detail::turned<1>(value, Lanes{}))[0];
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
