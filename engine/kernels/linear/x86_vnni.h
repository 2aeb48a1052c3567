// How VNNI multiplies codes by tokens: four products added to a sum of 32 bits. Include after `add_products`,
// `shifted_up` and kVnniTokens, the tokens in a tile.
#pragma once

#include "matrix.h"

namespace edgec::linear {
namespace {

template <int kBits>
struct Products : ByteValues {
  static constexpr int kPlanes = 1, kMostTokens = kVnniTokens;
  static constexpr bool kWide = true;

  static inline void read(const uint8_t* slice, int n, Ints* codes) { *codes = codes_at<kBits>(slice, n); }

  static inline Ints add(Ints sum, Ints codes, Ints four) { return add_products(sum, codes, four); }

  static inline Ints steps(int step) { return same_ints(step - 1); }

  static inline Ints total(Ints sum, Ints steps) { return shifted_up(sum, steps); }
};

}  // namespace
}  // namespace edgec::linear
