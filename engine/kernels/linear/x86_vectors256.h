// Vectors of 256 bits, for 8 of a block's 16 rows. Include after EDGEC_BEGIN_ISA.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "matrix.h"

namespace edgec::linear {
namespace {

using Ints = __m256i;
using Floats = __m256;

constexpr int kBlockRows = 16;
constexpr int kVectorRows = 8;
constexpr int kVectors = 2;  // of a tile's rows: the halves of one block
constexpr int kVectorBytes = 32;
constexpr int kBlockVectors = 2;
constexpr int kTileBlocks = 1;
constexpr bool kUnpacks = true;  // codes once for many tokens
constexpr int64_t kNarrow = 0;
constexpr int kFloatTokens = 3;  // of a tile

// Where vector `index` of a tile lies beside the first, in an array that holds `bytes` for a vector's rows.
inline int64_t beside(int index, int64_t bytes, int64_t) {
  return index * bytes;
}

inline Ints load(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

inline void store(uint8_t* to, Ints x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x);
}

inline Ints and_all(Ints x, int byte) {
  return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(byte)));
}

inline Ints either(Ints x, Ints y) {
  return _mm256_or_si256(x, y);
}

// Shifts 16-bit numbers to the right, or to the left by -count.
inline Ints shifted(Ints x, int count) {
  return count < 0 ? _mm256_slli_epi16(x, -count) : _mm256_srli_epi16(x, count);
}

// Shifts 32-bit numbers to the left.
inline Ints shifted_up(Ints x, Ints count) {
  return _mm256_sllv_epi32(x, count);
}

// Shifts signed 32-bit numbers to the right.
inline Ints shifted_down(Ints x, int count) {
  return _mm256_srai_epi32(x, count);
}

inline Ints no_ints() {
  return _mm256_setzero_si256();
}

inline Ints same_ints(int32_t x) {
  return _mm256_set1_epi32(x);
}

inline Ints four_values(const int8_t* from) {
  int32_t values;
  std::memcpy(&values, from, 4);
  return _mm256_set1_epi32(values);
}

inline Ints plus(Ints x, Ints y) {
  return _mm256_add_epi32(x, y);
}

inline Ints times(Ints x, Ints y) {
  return _mm256_mullo_epi32(x, y);
}

// Byte `index` of each of four.
inline Ints byte_of(Ints x, int index) {
  return _mm256_and_si256(_mm256_srli_epi32(x, index * 8), _mm256_set1_epi32(255));
}

inline Floats no_floats() {
  return _mm256_setzero_ps();
}

inline Floats same_floats(float x) {
  return _mm256_set1_ps(x);
}

inline Floats as_floats(Ints x) {
  return _mm256_cvtepi32_ps(x);
}

inline Floats plus(Floats x, Floats y) {
  return _mm256_add_ps(x, y);
}

inline Floats times(Floats x, Floats y) {
  return _mm256_mul_ps(x, y);
}

inline Floats fused(Floats x, Floats y, Floats z) {
  return _mm256_fmadd_ps(x, y, z);
}

inline Floats load_bfloat16(const uint8_t* from) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

inline Floats load_float16(const uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline Ints widened(const uint8_t* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

inline Ints widened_signed(const uint8_t* from) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

inline Floats load_floats(const float* from) {
  return _mm256_loadu_ps(from);
}

inline void store_floats(float* to, Floats x) {
  _mm256_storeu_ps(to, x);
}

}  // namespace
}  // namespace edgec::linear
