// The kernel in plain C++, in either layout; its quantisation and its grids serve others, too.
#pragma once

#include "kernel.h"

namespace edgec::linear {

// The grid of a token: q = clamp(round(x * inverse) + zero).
struct Grid {
  float scale;
  float inverse;
  float zero;
};

// The grid for values from `low`, at most 0, to `high`, at least 0: one function, so that all kernels have its bits.
Grid grid_between(float low, float high);

void quantize_plainly(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens);

void multiply_plainly(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                      const int32_t* sums, int64_t first_token, int64_t token_count, float* out, int64_t stride);

// float_plain.cpp: with NEON on arm64, which every such processor has.
MultiplyFloats multiply_floats_plainly;

}  // namespace edgec::linear
