// How the products of a group are summed; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
//
// Vector p of what Half::unpack() gives holds 8 values of rows 2p and 2p + 1, and so does vector p of the sums. begin() gives
// them from `sum`, the sum of the tokens' values in its lanes; after end() they are 2^kBelow[p] times those of arm64.h.
#pragma once

#include "neon_codes.h"
#include "neon_ends.h"

namespace edgec::linear {
namespace {

// Each code by itself. kCentred: the start is 0.
template <class Codes, bool kCentred>
struct Single {
  static constexpr int kBelow[4] = {Codes::kBelow, Codes::kBelow, Codes::kBelow, Codes::kBelow};
  static constexpr int kSliceBytes = Codes::kSliceBytes;

  static EDGEC_PART int32x4_t factors(const Rows& rows) { return vdupq_n_s32(rows.start); }

  static EDGEC_PART void begin(int32x4_t sum, int32x4_t factors, int32x4_t (&sums)[4]) {
    const int32x4_t start = kCentred ? vdupq_n_s32(0) : vmulq_s32(sum, factors);
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) sums[p] = start;
  }

  // 16 values of each row: parts 0 and 1 are 8.
  struct Half {
    const uint8_t* slice;
    int half;

    EDGEC_PART void unpack(int part, int8x16_t (&v)[4]) const { Codes::unpack(slice, half * 2 + part, v); }
  };

  static EDGEC_PART Half load(const uint8_t* slice, int half) { return {slice, half}; }

  static EDGEC_PART void end(int32x4_t (&)[4]) {}
};

// 2 bits with fewer masks. A byte of a line holds a value of four rows, and all four are multiplied with the same q. So the
// whole byte is multiplied for the last rows, and what the others added to it is subtracted once a group. With u_p for
// the code of row 2p (or 2p + 1), stored as c_p = u_p - 2 in two's complement at bits 2p and 2p + 1 of byte b:
//
//     b << 6           64 c_0
//     x = b ^ 0x2a     64 c_3 + 16 u_2 + 4 u_1 + u_0        u_p in place of c_p, but for the highest
//     x & 0x0c         4 u_1
//     x & 0x30         16 u_2
//
// Sums of 2^32 and more wrap around, which subtraction undoes; sums of c_0 do not reach 2^31 (fits_tiles).
struct Overlaid2 {
  static constexpr int kBelow[4] = {6, 2, 4, 6};
  static constexpr int kSliceBytes = Codes<2>::kSliceBytes;

  // What `sum` is multiplied with for each vector. rows.start is a multiple of 32, since steps are 1 and 2; the last one
  // makes up for the others, which end() subtracts, and for u_0 = c_0 + 2.
  static EDGEC_PART int32x4_t factors(const Rows& rows) {
    const int32_t second = rows.start / 16 - 8, third = rows.start / 4 - 32;
    const int32_t each[4] = {rows.start, second, third, rows.start - 2 + second + third};
    return vld1q_s32(each);
  }

  static EDGEC_PART void begin(int32x4_t sum, int32x4_t factors, int32x4_t (&sums)[4]) {
    sums[0] = vmulq_laneq_s32(sum, factors, 0);
    sums[1] = vmulq_laneq_s32(sum, factors, 1);
    sums[2] = vmulq_laneq_s32(sum, factors, 2);
    sums[3] = vsraq_n_s32(vmulq_laneq_s32(sum, factors, 3), sums[0], 6);
  }

  struct Half {
    int8x16_t lines[2];

    EDGEC_PART void unpack(int part, int8x16_t (&v)[4]) const {
      v[0] = vshlq_n_s8(lines[part], 6);
      v[3] = veorq_s8(lines[part], vdupq_n_s8(0x2a));
      v[1] = vandq_s8(v[3], vdupq_n_s8(0x0c));
      v[2] = vandq_s8(v[3], vdupq_n_s8(0x30));
    }
  };

  // Both lines by one instruction.
  static EDGEC_PART Half load(const uint8_t* slice, int half) {
    Half loaded = {{load_bytes(slice + half * 32), load_bytes(slice + half * 32 + 16)}};
    asm("" : "+w"(loaded.lines[0]), "+w"(loaded.lines[1]));
    return loaded;
  }

  static EDGEC_PART void end(int32x4_t (&sums)[4]) {
    sums[3] = vsubq_s32(sums[3], vsraq_n_s32(vaddq_s32(sums[1], sums[2]), sums[0], 6));
  }
};

// What serves few tokens best.
template <class Codes, bool kCentred, Shares kShares>
struct FewTokens {
  using Sums = Single<Codes, kCentred>;
};

// Decoded scales come with results that minimums are added to: no row's may be too large by a power of two.
template <bool kCentred, Shares kShares>
struct FewTokens<Codes<2>, kCentred, kShares> {
  using Sums = std::conditional_t<kShares == Shares::kDecoded, Single<Codes<2>, kCentred>, Overlaid2>;
};

}  // namespace
}  // namespace edgec::linear
