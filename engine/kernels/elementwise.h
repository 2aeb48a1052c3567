// Operators between the matrix products: edgec::rms_norm and edgec::rope (ir/operators.py).
#pragma once

#include <cstdint>

namespace edgec {

// x and out [rows, width]; weight [width] or null.
void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t width, float* out);

struct Rope {
  const float* x;    // [tokens, heads, width]
  const float* cos;  // [tokens, rotated]
  const float* sin;  // [tokens, rotated]
  int64_t tokens;
  int64_t heads;
  int64_t width;
  int64_t rotated;  // how many of the first dimensions are rotated
  float* out;
};

void rope(const Rope& call);

}  // namespace edgec
