// The codes of a slice as vectors of bytes; part of the source file of an instruction set, after EDGEC_BEGIN_ISA.
#pragma once

#include <cstdint>

#include "neon.h"

namespace edgec::linear {
namespace {

EDGEC_PART int8x16_t load_bytes(const uint8_t* from) {
  return vreinterpretq_s8_u8(vld1q_u8(from));
}

EDGEC_PART int8x16_t top_bits(int8x16_t bytes, int bits) {
  return vandq_s8(bytes, vdupq_n_s8(static_cast<int8_t>(0xff00 >> bits)));
}

// unpack() gives values 8 * part .. 8 * part + 7 of a slice: v[p] are those of rows 2p and 2p + 1. The codes, two's
// complement, stand in the highest bits of each byte above `kBelow` zeros, which costs less than to extend their sign.
template <int kBits>
struct Codes;

template <>
struct Codes<2> {
  static constexpr int kBelow = 6, kSliceBytes = 64;

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
    const int8x16_t line = load_bytes(slice + part * 16);
    v[0] = vshlq_n_s8(line, 6);
    v[1] = top_bits(vshlq_n_s8(line, 4), 2);
    v[2] = top_bits(vshlq_n_s8(line, 2), 2);
    v[3] = top_bits(line, 2);
  }
};

template <>
struct Codes<3> {
  static constexpr int kBelow = 5, kSliceBytes = 96;

  // The highest bit above the two lower ones, which stand in the highest bits of `low`.
  static EDGEC_PART int8x16_t joined(int8x16_t high, int8x16_t low) { return top_bits(vsriq_n_s8(high, low, 1), 3); }

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
    const int8x16_t low = load_bytes(slice + part * 16), line = load_bytes(slice + 64 + part / 2 * 16);
    const int8x16_t high = part % 2 == 0 ? vshlq_n_s8(line, 4) : line;
    v[0] = joined(vshlq_n_s8(high, 3), vshlq_n_s8(low, 6));
    v[1] = joined(vshlq_n_s8(high, 2), vshlq_n_s8(low, 4));
    v[2] = joined(vshlq_n_s8(high, 1), vshlq_n_s8(low, 2));
    v[3] = joined(high, low);
  }
};

template <>
struct Codes<4> {
  static constexpr int kBelow = 4, kSliceBytes = 128;

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
    const int8x16_t line = load_bytes(slice + part * 32), next = load_bytes(slice + part * 32 + 16);
    v[0] = vshlq_n_s8(line, 4);
    v[1] = top_bits(line, 4);
    v[2] = vshlq_n_s8(next, 4);
    v[3] = top_bits(next, 4);
  }
};

template <>
struct Codes<5> {
  static constexpr int kBelow = 3, kSliceBytes = 160;

  static EDGEC_PART int8x16_t joined(int8x16_t high, int8x16_t low) { return top_bits(vsriq_n_s8(high, low, 1), 5); }

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
    const int8x16_t low = load_bytes(slice + part * 32), next = load_bytes(slice + part * 32 + 16);
    const int8x16_t line = load_bytes(slice + 128 + part / 2 * 16), high = part % 2 == 0 ? vshlq_n_s8(line, 4) : line;
    v[0] = joined(vshlq_n_s8(high, 3), vshlq_n_s8(low, 4));
    v[1] = joined(vshlq_n_s8(high, 2), low);
    v[2] = joined(vshlq_n_s8(high, 1), vshlq_n_s8(next, 4));
    v[3] = joined(high, next);
  }
};

template <>
struct Codes<6> {
  static constexpr int kBelow = 2, kSliceBytes = 192;

  static EDGEC_PART int8x16_t joined(int8x16_t high, int8x16_t low) { return top_bits(vsriq_n_s8(high, low, 2), 6); }

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
    const int8x16_t low = load_bytes(slice + part * 32), next = load_bytes(slice + part * 32 + 16);
    const int8x16_t high = load_bytes(slice + 128 + part * 16);
    v[0] = joined(vshlq_n_s8(high, 6), vshlq_n_s8(low, 4));
    v[1] = joined(vshlq_n_s8(high, 4), low);
    v[2] = joined(vshlq_n_s8(high, 2), vshlq_n_s8(next, 4));
    v[3] = joined(high, next);
  }
};

template <>
struct Codes<8> {
  static constexpr int kBelow = 0, kSliceBytes = 256;

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) v[p] = load_bytes(slice + part * 64 + p * 16);
  }
};

}  // namespace
}  // namespace edgec::linear
