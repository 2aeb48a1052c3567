// Vectors of floats for 4 of a block's 8 rows, with what every arm64 processor has.
#pragma once

#include "neon_vectors.h"

#include "decode_vectors.h"
#include "neon_codes.h"

namespace edgec::linear {
namespace {

constexpr int kFloatTokens = 4;

EDGEC_INLINE Floats no_floats() { return vdupq_n_f32(0); }
EDGEC_INLINE Floats plus(Floats x, Floats y) { return vaddq_f32(x, y); }

EDGEC_INLINE Floats load_bfloat16(const uint8_t* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(from)), 16));
}

EDGEC_INLINE void add_products(const Floats (&values)[4], const float* x, Floats (&sums)[4]) {
  const float32x4_t four = vld1q_f32(x);
  sums[0] = vfmaq_laneq_f32(sums[0], values[0], four, 0);
  sums[1] = vfmaq_laneq_f32(sums[1], values[1], four, 1);
  sums[2] = vfmaq_laneq_f32(sums[2], values[2], four, 2);
  sums[3] = vfmaq_laneq_f32(sums[3], values[3], four, 3);
}

// Two's complement: what is read is the code less 2^(bits - 1).
template <int kBits>
struct FloatCodes {
  static inline float start(const Matrix& matrix) {
    return static_cast<float>((matrix.step << (kBits - 1)) - matrix.offset);
  }

  // A look-up puts a value of four rows into the highest bytes of four numbers, and zeros below.
  template <int kPart>
  static EDGEC_INLINE void read(const uint8_t* slice, int n, Floats (&codes)[4]) {
    constexpr uint8_t kNone = 128;
    static constexpr uint8_t kHighest[16] = {kNone, kNone, kNone, 0,  kNone, kNone, kNone, 8,
                                             kNone, kNone, kNone, 16, kNone, kNone, kNone, 24};
    int8x16_t v[4];
    Codes<kBits>::unpack(slice, n / 2, v);
    const uint8x16x2_t rows = {{vreinterpretq_u8_s8(v[2 * kPart]), vreinterpretq_u8_s8(v[2 * kPart + 1])}};
    EDGEC_UNROLL
    for (int j = 0; j < 4; j++) {
      const uint8x16_t place = vaddq_u8(vld1q_u8(kHighest), vdupq_n_u8(static_cast<uint8_t>(n % 2 * 4 + j)));
      codes[j] = vcvtq_n_f32_s32(vreinterpretq_s32_u8(vqtbl2q_u8(rows, place)), 24 + Codes<kBits>::kBelow);
    }
  }
};

}  // namespace
}  // namespace edgec::linear
