// How VNNI multiplies codes by tokens: four products added to a sum of 32 bits. Include after EDGEC_BEGIN_ISA.
#pragma once

#include "x86_codes.h"

namespace edgec::linear {
namespace {

// The instruction of the source file.
inline Ints add_products(Ints sum, Ints codes, Ints four);

template <int kBits>
struct Products : ByteValues {
  static constexpr int kPlanes = 1, kMostTokens = 6;
  static constexpr bool kWide = true;

  static inline void read(const uint8_t* slice, int n, Ints* codes) { *codes = codes_at<kBits>(slice, n); }

  static inline Ints add(Ints sum, Ints codes, Ints four) { return add_products(sum, codes, four); }

  static inline Ints steps(int step) { return same_ints(step - 1); }

  static inline Ints total(Ints sum, Ints steps) { return shifted_up(sum, steps); }
};

}  // namespace
}  // namespace edgec::linear
