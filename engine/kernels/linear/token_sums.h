// What minimums are multiplied with where tokens are in float.
#pragma once

#include "matrix.h"

namespace edgec::linear {

// The sums of all slices: (sum_0 + sum_1) + (sum_2 + sum_3), where sum_j = x_j + x_(j + 4) + ... in this order.
inline void sum_slices(const float* x, int64_t slices, float* totals) {
  for (int64_t slice = 0; slice < slices; slice++, x += kSlice) {
    float sums[4] = {x[0], x[1], x[2], x[3]};
    for (int64_t i = 4; i < kSlice; i++) sums[i % 4] += x[i];
    totals[slice] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

}  // namespace edgec::linear
