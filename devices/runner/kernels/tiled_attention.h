// Attention of many rows: matrix products over tiles of keys that are unpacked once for all rows.
#pragma once

#include "attention.h"

namespace edgec {

// At most so many rows share the unpacked keys, about: they and their sums stay in the second-level cache (D = 128:
// 192 KB). Measured on q8L, prefill 512: 5 to 9 % faster than 96 rows.
inline constexpr int kTiledRows = 192;

// The stride of the partial results: values' width in whole columns of the product.
int64_t tiled_stride(const Attention& call);

// The rows of KV head `head` of `queries`, over keys begin..end-1 of what they see: row i is query first + i / group,
// head `head * group + i % group`.
void attend_tiled(const Attention& call, const Queries& queries, int64_t head, int64_t begin, int64_t end,
                  Partial into);

}  // namespace edgec
