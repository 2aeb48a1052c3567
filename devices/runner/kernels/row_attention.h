// Attention of few rows, as in decoding: every key and value is read once, in the order it lies in memory, and used for
// all heads at once.
#pragma once

#include "attention.h"

namespace edgec {

// Whether the heads are made of whole vectors.
bool rows_serve(const Attention& call);

// The rows of all heads of `queries`, over the keys of `part`: row i belongs to KV head
// i / (count * group), query first + i / group % count, and head i % group of the group. The partial result lies in
// `rows` and `out`, [count * heads] and [count * heads, values.width].
void attend_rows(const Attention& call, const Queries& queries, const Span& part, Partial into);

}  // namespace edgec
