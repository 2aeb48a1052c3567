// One part of split-KV decode (Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html): attention of
// few rows, in which every key and value of the part is read once, in memory order, and used for many heads at once.
#pragma once

#include "attention.h"

namespace edgec {

// Whether the heads' widths are multiples of the vectors that split-KV decode reads.
bool heads_fit_vectors(const Attention& call);

// Neighbouring KV heads.
struct KvHeads {
  int64_t first;
  int64_t count;
};

// Computes the rows of some KV heads of `queries` over the keys of `part`: row i belongs to KV head
// heads.first + i / (count * group), query first + i / group % count, and head i % group of the group. The partial result
// goes to `rows` and `out`, [heads.count * count * group] and [heads.count * count * group, values.width].
void decode_part(const Attention& call, const Queries& queries, const KvHeads& heads, const Span& part, Partial into);

}  // namespace edgec
