// Tokens to 8 bits, 8 values at a time, with the bits of quantize_plainly. Include after EDGEC_BEGIN_ISA.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernel.h"
#include "plain.h"

namespace edgec::linear {
namespace {

// Slices whose grids are found at once.
constexpr int64_t kGridsAtOnce = 8;

inline float greatest_of(__m256 x) {
  __m128 greatest = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  greatest = _mm_max_ps(greatest, _mm_movehl_ps(greatest, greatest));
  return _mm_cvtss_f32(_mm_max_ss(greatest, _mm_movehdup_ps(greatest)));
}

// The greatest of 32 values without sign; the second operand stays where the first is not a number.
inline float largest_of(const float* x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 largest = _mm256_setzero_ps();
  for (int i = 0; i < 4; i++) largest = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i * 8)), largest);
  return greatest_of(largest);
}

// x / scale, rounded to even; 0 where that is not a number.
inline __m256i whole_numbers(const float* x, __m256 inverse) {
  const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
  const __m256i whole = _mm256_cvtps_epi32(scaled);
  return _mm256_and_si256(whole, _mm256_castps_si256(_mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q)));
}

// The sum of 32 signed bytes.
inline int32_t sum_of(__m256i bytes) {
  const __m256i above = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
  const __m256i sums = _mm256_sad_epu8(above, _mm256_setzero_si256());
  const __m128i halves = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return _mm_cvtsi128_si32(halves) + _mm_extract_epi32(halves, 2) - 32 * 128;
}

// Quantises 32 values and returns their sum. Packing keeps them as they are: none exceeds 127 without sign.
inline int32_t quantize_slice(const float* x, float scale, int8_t* values) {
  const __m256 inverse = _mm256_set1_ps(scale);
  const __m256i a = whole_numbers(x, inverse), b = whole_numbers(x + 8, inverse);
  const __m256i c = whole_numbers(x + 16, inverse), d = whole_numbers(x + 24, inverse);
  const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), bytes);
  return sum_of(bytes);
}

// `count` slices, kGridsAtOnce at most, from number `first` of all tokens' slices on.
inline void quantize_slices(const float* x, int64_t count, int64_t first, const Tokens& tokens) {
  float largest[kGridsAtOnce] = {}, inverses[kGridsAtOnce], scales[kGridsAtOnce];
  for (int64_t i = 0; i < count; i++) largest[i] = largest_of(x + i * kSlice);
  for (int64_t i = 0; i < kGridsAtOnce; i++) {
    const SliceGrid grid = slice_grid(largest[i]);
    scales[i] = grid.scale;
    inverses[i] = grid.inverse;
  }
  std::memcpy(tokens.scales + first, scales, static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = 0; i < count; i++) {
    const int32_t sum = quantize_slice(x + i * kSlice, inverses[i], tokens.values + (first + i) * kSlice);
    tokens.sums[first + i] = sum;
    tokens.totals[first + i] = static_cast<float>(sum) * scales[i];
  }
}

inline void quantize_token(const float* x, int64_t width, int64_t token, const Tokens& tokens) {
  const int64_t full = width / kSlice, rest = width % kSlice, first = token * tokens.slices;
  for (int64_t done = 0; done < full; done += kGridsAtOnce) {
    quantize_slices(x + done * kSlice, full - done < kGridsAtOnce ? full - done : kGridsAtOnce, first + done, tokens);
  }
  if (rest == 0) return;
  float last[kSlice] = {};
  std::memcpy(last, x + full * kSlice, static_cast<size_t>(rest) * sizeof(float));
  quantize_slices(last, 1, first + full, tokens);
}

inline void quantize(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens) {
  for (int64_t token = first; token < first + count; token++) quantize_token(x + token * width, width, token, tokens);
}

}  // namespace
}  // namespace edgec::linear
