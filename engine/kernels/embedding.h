// Reads rows of a token table from the same bytes that XNNPACK packs the lm_head from.
#pragma once

#include <cstdint>

#include "kernels/linear/matrix.h"

namespace edgec {

// bits 32: float32 [rows, width]. bits 8: int8 [rows, width] with float32 scales [rows]. bits 4: uint8
// [rows, (width + 1) / 2], low nibble first, value = nibble - 8, with bfloat16 scales [rows, width / group].
struct Table {
  const void* weights;
  const void* scales;
  int64_t rows;
  int64_t width;
  int64_t group;
  int bits;

  int64_t weight_bytes() const { return rows * (bits == 4 ? (width + 1) / 2 : width * bits / 8); }
  int64_t scale_bytes() const { return bits == 32 ? 0 : bits == 8 ? rows * 4 : rows * (width / group) * 2; }
};

// out [count, width]; tokens are rows of the table.
void gather(const Table& table, const int64_t* tokens, int64_t count, float* out);

// The same from a matrix in the layout of the linear kernels.
void gather(const linear::Matrix& matrix, const int64_t* tokens, int64_t count, float* out);

}  // namespace edgec
