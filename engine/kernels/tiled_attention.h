// One tile of tiled prefill (FlashAttention, arXiv 2205.14135 and 2307.08691): attention of many rows as matrix
// products over tiles of keys, which are unpacked once for all rows, with a running softmax.
#pragma once

#include "attention.h"

namespace edgec {

// About the most rows that share the unpacked keys: they and their sums stay in the second-level cache (D = 128: 192
// KB). Measured on q8L, prefill 512: 5 to 9 % faster than 96 rows.
inline constexpr int kTiledRows = 192;

// The stride of the partial results: the values' width, rounded up to whole columns of the product.
int64_t tiled_stride(const Attention& call);

// Computes the rows of KV head `head` of `queries` over keys begin..end-1 of those they see: row i is query
// first + i / group, head `head * group + i % group`.
void prefill_tile(const Attention& call, const Queries& queries, int64_t head, int64_t begin, int64_t end,
                  Partial into);

}  // namespace edgec
