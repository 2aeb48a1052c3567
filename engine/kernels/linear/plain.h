// The kernel in plain C++, in either layout; its quantisation and its grids serve others, too.
#pragma once

#include "isa.h"
#include "kernel.h"

namespace edgec::linear {

// The grid of a slice of a token: q = clamp(round(x * inverse), -127, 127).
struct SliceGrid {
  float scale;
  float inverse;
};

// The grid for values of at most `largest`, without sign. Divisions have one right result, so all kernels have its bits.
EDGEC_INLINE SliceGrid slice_grid(float largest) {
  constexpr float kLeast = 1.17549435e-38f;
  const float scale = largest / 127.0f, used = scale < kLeast ? kLeast : scale;
  return {used, 1.0f / used};
}

void quantize_plainly(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens);

Multiply multiply_plainly;

// float_plain.cpp: with NEON on arm64, which every such processor has.
Multiply multiply_floats_plainly;

}  // namespace edgec::linear
