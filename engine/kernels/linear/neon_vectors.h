// Vectors for 4 of a block's 8 rows, with what every arm64 processor has.
#pragma once

// Before neon.h, which may give the same functions to newer processors only.
#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "isa.h"

namespace edgec::linear {
namespace {

using Floats = float32x4_t;
using Ints = uint32x4_t;

constexpr int kVectorRows = 4, kBlockRows = 8;

EDGEC_INLINE Floats same_floats(float x) { return vdupq_n_f32(x); }
EDGEC_INLINE Floats times(Floats x, Floats y) { return vmulq_f32(x, y); }
EDGEC_INLINE Floats fused(Floats x, Floats y, Floats z) { return vfmaq_f32(z, x, y); }
EDGEC_INLINE Floats load_floats(const float* from) { return vld1q_f32(from); }
EDGEC_INLINE void store_floats(float* to, Floats x) { vst1q_f32(to, x); }

EDGEC_INLINE Floats load_float16(const uint8_t* from) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))); }

EDGEC_INLINE Ints and_all(Ints x, int byte) { return vandq_u32(x, vdupq_n_u32(static_cast<uint32_t>(byte))); }
EDGEC_INLINE Ints either(Ints x, Ints y) { return vorrq_u32(x, y); }

// Shifts to the right, or to the left by -count.
EDGEC_INLINE Ints shifted(Ints x, int count) { return vshlq_u32(x, vdupq_n_s32(-count)); }

EDGEC_INLINE uint8x8_t four_bytes(const uint8_t* from) {
  uint32_t bytes;
  std::memcpy(&bytes, from, 4);
  return vreinterpret_u8_u32(vdup_n_u32(bytes));
}

EDGEC_INLINE Ints widened(const uint8_t* from) { return vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(from)))); }

EDGEC_INLINE int32x4_t widened_signed(const uint8_t* from) {
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(from)))));
}

EDGEC_INLINE Floats as_floats(Ints x) { return vcvtq_f32_u32(x); }
EDGEC_INLINE Floats as_floats(int32x4_t x) { return vcvtq_f32_s32(x); }

}  // namespace
}  // namespace edgec::linear
