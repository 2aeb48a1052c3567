// What minimums add to a block's rows, for all instruction sets. Include after EDGEC_BEGIN_ISA.
#pragma once

#include <cstdint>

#include "isa.h"
#include "vectors.h"

namespace edgec::linear {
namespace {

constexpr int kMinimumTokens = 4;  // at once, so that their sums overlap

template <int kTokens>
EDGEC_INLINE void add_minimums_to(const float* minimums, const float* totals, int64_t slices, float* out,
                                  int64_t stride) {
  constexpr int kVectorsOfBlock = kBlockRows / kVectorRows, kSums = kTokens * kVectorsOfBlock;
  Floats sums[kSums];
  EDGEC_UNROLL
  for (int i = 0; i < kSums; i++) {
    sums[i] = load_floats(out + i / kVectorsOfBlock * stride + i % kVectorsOfBlock * kVectorRows);
  }
  for (int64_t slice = 0; slice < slices; slice++, minimums += kBlockRows) {
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      const Floats each = load_floats(minimums + i % kVectorsOfBlock * kVectorRows);
      sums[i] = fused(each, same_floats(totals[i / kVectorsOfBlock * slices + slice]), sums[i]);
    }
  }
  EDGEC_UNROLL
  for (int i = 0; i < kSums; i++) {
    store_floats(out + i / kVectorsOfBlock * stride + i % kVectorsOfBlock * kVectorRows, sums[i]);
  }
}

// Adds a block's minimums [slice][kBlockRows], times the totals [token][slice], to the results of its rows.
inline void add_minimums(const float* minimums, const float* totals, int64_t slices, int64_t tokens, float* out,
                         int64_t stride) {
  int64_t done = 0;
  for (; done + kMinimumTokens <= tokens; done += kMinimumTokens) {
    add_minimums_to<kMinimumTokens>(minimums, totals + done * slices, slices, out + done * stride, stride);
  }
  for (; done < tokens; done++) add_minimums_to<1>(minimums, totals + done * slices, slices, out + done * stride, stride);
}

}  // namespace
}  // namespace edgec::linear
