// How AVX2 multiplies codes by tokens: bytes to sums of 16 bits, which hold as many products as their codes' bits allow.
// Include after EDGEC_BEGIN_ISA.
#pragma once

#include "x86_codes.h"

namespace edgec::linear {
namespace {

// Sums of pairs of products: 16 bits hold the 16 products of a slice.
template <int kBits>
struct Products : ByteValues {
  static constexpr int kPlanes = 1, kMostTokens = 5;
  static constexpr bool kWide = false;

  static inline void read(const uint8_t* slice, int n, Ints* codes) { *codes = codes_at<kBits>(slice, n); }

  static inline Ints add(Ints sum, Ints codes, Ints four) {
    Ints added = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, four));
    // Otherwise gcc adds products to each other first, and spills them: 1.8 times slower.
    asm("" : "+x"(added));
    return added;
  }

  static inline Ints steps(int step) { return _mm256_set1_epi16(static_cast<int16_t>(step)); }

  static inline Ints total(Ints sum, Ints steps) { return _mm256_madd_epi16(sum, steps); }
};

// Pairs of products of 5 and 6 bits fit in 16 bits, but their sums do not: they are added up in 32.
struct PairProducts : ByteValues {
  static constexpr int kPlanes = 1, kMostTokens = 5;
  static constexpr bool kWide = true;

  static inline Ints add(Ints sum, Ints codes, Ints four) {
    Ints added = plus(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, four), _mm256_set1_epi16(1)));
    asm("" : "+x"(added));  // as above
    return added;
  }

  static inline Ints steps(int step) { return same_ints(step); }

  static inline Ints total(Ints sum, Ints steps) { return times(sum, steps); }
};

template <>
struct Products<5> : PairProducts {
  static inline void read(const uint8_t* slice, int n, Ints* codes) { *codes = codes_at<5>(slice, n); }
};

template <>
struct Products<6> : PairProducts {
  static inline void read(const uint8_t* slice, int n, Ints* codes) { *codes = codes_at<6>(slice, n); }
};

// A pair of products of 8 bits exceeds 16 bits: the even and the odd values of four are multiplied in 16 bits, to sums of
// 32.
template <>
struct Products<8> {
  static constexpr int kPlanes = 2, kMostTokens = 5;
  static constexpr bool kWide = true;

  // Pairs of values in 16 bits, [plane][n].
  struct Slice {
    alignas(32) int32_t pairs[2][kSliceVectors];
  };

  static EDGEC_INLINE void read_slice(const int8_t* values, Slice& slice) {
    const Ints bytes = load(reinterpret_cast<const uint8_t*>(values));
    store(reinterpret_cast<uint8_t*>(slice.pairs[0]), _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
    store(reinterpret_cast<uint8_t*>(slice.pairs[1]), _mm256_srai_epi16(bytes, 8));
    // Otherwise gcc takes the pairs from registers by shuffles: loads repeat them at no cost.
    asm("" : "+m"(slice.pairs));
  }

  static EDGEC_INLINE Ints four(const Slice& slice, int n, int plane) { return same_ints(slice.pairs[plane][n]); }

  static inline void read(const uint8_t* slice, int n, Ints* codes) {
    const Ints whole = codes_at<8>(slice, n);
    codes[0] = _mm256_and_si256(whole, _mm256_set1_epi16(255));
    codes[1] = shifted(whole, 8);
  }

  static inline Ints add(Ints sum, Ints codes, Ints pairs) {
    Ints added = plus(sum, _mm256_madd_epi16(codes, pairs));
    asm("" : "+x"(added));  // as above
    return added;
  }

  static inline Ints steps(int) { return no_ints(); }

  static inline Ints total(Ints sum, Ints) { return sum; }
};

}  // namespace
}  // namespace edgec::linear
