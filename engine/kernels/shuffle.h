// Moving lanes between vectors, and sums and maxima over lanes.
#pragma once

#include <utility>

#include "simd.h"

namespace edgec {

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

// Lane i of the result is lane i + kDistance, modulo the width.
template <int kDistance, int... I>
inline Vec rotated(Vec value, std::integer_sequence<int, I...>) {
  return shuffle<Vec, ((I + kDistance) % kWidth)...>(value, value);
}

}  // namespace detail

// a0 b0 a1 b1 ...
inline Pair zip(Pair pair) {
  using Lanes = std::make_integer_sequence<int, kWidth>;
  return {detail::zip<0>(pair.first, pair.second, Lanes{}), detail::zip<kWidth>(pair.first, pair.second, Lanes{})};
}

// Even lanes, then odd ones: the inverse of zip.
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
  if constexpr (kWidth >= 16) value = max(value, detail::rotated<8>(value, Lanes{}));
  if constexpr (kWidth >= 8) value = max(value, detail::rotated<4>(value, Lanes{}));
  value = max(value, detail::rotated<2>(value, Lanes{}));
  return max(value, detail::rotated<1>(value, Lanes{}))[0];
}

}  // namespace edgec
