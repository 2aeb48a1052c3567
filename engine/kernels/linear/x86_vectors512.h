// Vectors of 512 bits, for a block's 16 rows. Include after EDGEC_BEGIN_ISA.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "matrix.h"

namespace edgec::linear {
namespace {

using Ints = __m512i;
using Floats = __m512;

constexpr int kBlockRows = 16;
constexpr int kVectorRows = 16;
constexpr int kVectors = 2;  // of a tile's rows: two blocks
constexpr int kVectorBytes = 64;
constexpr int kBlockVectors = 1;
constexpr int kTileBlocks = 2;
constexpr bool kUnpacks = false;  // codes once for many tokens
// Up to so many tokens, which are one tile, a tile has one block: memory is read faster where one block follows the other.
constexpr int64_t kNarrow = 5;
constexpr int kFloatTokens = 6;  // of a tile

// Where vector `index` of a tile lies beside the first.
inline int64_t beside(int index, int64_t, int64_t block_bytes) {
  return index * block_bytes;
}

inline Ints load(const uint8_t* from) {
  return _mm512_loadu_si512(from);
}

inline void store(uint8_t* to, Ints x) {
  _mm512_storeu_si512(to, x);
}

inline Ints and_all(Ints x, int byte) {
  return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(byte)));
}

inline Ints either(Ints x, Ints y) {
  return _mm512_or_si512(x, y);
}

// Shifts 16-bit numbers to the right, or to the left by -count.
inline Ints shifted(Ints x, int count) {
  return count < 0 ? _mm512_slli_epi16(x, static_cast<unsigned>(-count))
                   : _mm512_srli_epi16(x, static_cast<unsigned>(count));
}

// Shifts 32-bit numbers to the left.
inline Ints shifted_up(Ints x, Ints count) {
  return _mm512_sllv_epi32(x, count);
}

// Shifts signed 32-bit numbers to the right.
inline Ints shifted_down(Ints x, int count) {
  return _mm512_srai_epi32(x, static_cast<unsigned>(count));
}

inline Ints no_ints() {
  return _mm512_setzero_si512();
}

inline Ints same_ints(int32_t x) {
  return _mm512_set1_epi32(x);
}

inline Ints four_values(const int8_t* from) {
  int32_t values;
  std::memcpy(&values, from, 4);
  return _mm512_set1_epi32(values);
}

inline Ints plus(Ints x, Ints y) {
  return _mm512_add_epi32(x, y);
}

inline Ints times(Ints x, Ints y) {
  return _mm512_mullo_epi32(x, y);
}

// Byte `index` of each of four.
inline Ints byte_of(Ints x, int index) {
  return _mm512_and_si512(_mm512_srli_epi32(x, static_cast<unsigned>(index * 8)), _mm512_set1_epi32(255));
}

inline Floats no_floats() {
  return _mm512_setzero_ps();
}

inline Floats same_floats(float x) {
  return _mm512_set1_ps(x);
}

inline Floats as_floats(Ints x) {
  return _mm512_cvtepi32_ps(x);
}

inline Floats plus(Floats x, Floats y) {
  return _mm512_add_ps(x, y);
}

inline Floats times(Floats x, Floats y) {
  return _mm512_mul_ps(x, y);
}

inline Floats fused(Floats x, Floats y, Floats z) {
  return _mm512_fmadd_ps(x, y, z);
}

inline Floats load_bfloat16(const uint8_t* from) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

inline Floats load_float16(const uint8_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

inline Ints widened(const uint8_t* from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline Ints widened_signed(const uint8_t* from) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline Floats load_floats(const float* from) {
  return _mm512_loadu_ps(from);
}

inline void store_floats(float* to, Floats x) {
  _mm512_storeu_ps(to, x);
}

}  // namespace
}  // namespace edgec::linear
