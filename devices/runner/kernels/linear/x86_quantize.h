// Tokens to 8 bits, 8 values at a time, with the bits of quantize_plainly. Include after EDGEC_BEGIN_ISA.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernel.h"
#include "plain.h"

namespace edgec::linear {
namespace {

struct Range {
  __m256 low;
  __m256 high;
};

// Both keep their second operand where the first is not a number.
inline void widen(Range& range, __m256 x) {
  range.low = _mm256_min_ps(x, range.low);
  range.high = _mm256_max_ps(x, range.high);
}

inline float least_of(__m256 x) {
  __m128 least = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  least = _mm_min_ps(least, _mm_movehl_ps(least, least));
  return _mm_cvtss_f32(_mm_min_ss(least, _mm_movehdup_ps(least)));
}

inline Grid grid_of(const float* x, int64_t width) {
  Range ranges[4];
  for (Range& range : ranges) range = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= width; i += 32) {
    for (int part = 0; part < 4; part++) widen(ranges[part], _mm256_loadu_ps(x + i + part * 8));
  }
  for (; i < width; i++) widen(ranges[0], _mm256_broadcast_ss(x + i));
  for (int part = 1; part < 4; part++) {
    ranges[0].low = _mm256_min_ps(ranges[0].low, ranges[part].low);
    ranges[0].high = _mm256_max_ps(ranges[0].high, ranges[part].high);
  }
  const __m256 minus = _mm256_set1_ps(-0.0f);
  return grid_between(least_of(ranges[0].low), -least_of(_mm256_xor_ps(ranges[0].high, minus)));
}

// x / scale + zero, rounded to even; 0 where x / scale is not a number.
inline __m256i whole_numbers(const float* x, __m256 inverse, __m256i zero) {
  const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
  const __m256i whole = _mm256_add_epi32(_mm256_cvtps_epi32(scaled), zero);
  return _mm256_and_si256(whole, _mm256_castps_si256(_mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q)));
}

// The sum of 32 signed bytes.
inline int32_t sum_of(__m256i bytes) {
  const __m256i above = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
  const __m256i sums = _mm256_sad_epu8(above, _mm256_setzero_si256());
  const __m128i halves = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return _mm_cvtsi128_si32(halves) + _mm_extract_epi32(halves, 2) - 32 * 128;
}

// Quantises 32 values and returns their sum. Packing saturates, which is the clamp to -128..127.
inline int32_t quantize_slice(const float* x, __m256 inverse, __m256i zero, int8_t* values) {
  const __m256i a = whole_numbers(x, inverse, zero), b = whole_numbers(x + 8, inverse, zero);
  const __m256i c = whole_numbers(x + 16, inverse, zero), d = whole_numbers(x + 24, inverse, zero);
  const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), bytes);
  return sum_of(bytes);
}

inline void quantize_token(const float* x, int64_t width, int64_t token, const Tokens& tokens) {
  const Grid grid = grid_of(x, width);
  const __m256 inverse = _mm256_set1_ps(grid.inverse);
  const __m256i zero = _mm256_set1_epi32(static_cast<int32_t>(grid.zero));
  int8_t* values = tokens.values + token * tokens.slices * kSlice;
  int32_t* sums = tokens.sums + token * tokens.slices;
  const int64_t full = width / kSlice, rest = width % kSlice;
  for (int64_t i = 0; i < full; i++) sums[i] = quantize_slice(x + i * kSlice, inverse, zero, values + i * kSlice);
  if (rest != 0) {
    // What is not a number becomes 0, whatever the zero point.
    float last[kSlice];
    std::memset(last, 0xff, sizeof(last));
    std::memcpy(last, x + full * kSlice, static_cast<size_t>(rest) * sizeof(float));
    sums[full] = quantize_slice(last, inverse, zero, values + full * kSlice);
  }
  tokens.scales[token] = grid.scale;
  tokens.zeros[token] = grid.zero;
}

inline void quantize(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens) {
  for (int64_t token = first; token < first + count; token++) quantize_token(x + token * width, width, token, tokens);
}

}  // namespace
}  // namespace edgec::linear
