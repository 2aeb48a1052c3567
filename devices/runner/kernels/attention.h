// Attention of some query rows over a cache: what edgec::cached_attention means (edgec/passes/operators.py).
#pragma once

#include <cstdint>

#include "geometry.h"
#include "softmax.h"
#include "stored.h"

namespace edgec {

struct Attention {
  const float* q;            // [queries, heads, keys.width]
  const int64_t* positions;  // [queries]
  int64_t queries;
  int64_t heads;
  Stored keys;
  Stored values;
  Geometry geometry;
  float scale;
  float softcap;             // 0: none
  const float* sink_logits;  // [heads] or null
  float* out;                // [queries, heads, values.width]
  const float* mask = nullptr;  // [queries, mask_stride] or null: by slot, added to the scores of what is visible
  int64_t mask_stride = 0;

  int64_t group() const { return heads / keys.heads; }
  // Queries are multiplied with this: scores come in units of log 2, or divided by the cap.
  float q_factor() const { return softcap > 0 ? scale / softcap : scale * kLog2e; }
};

// Scores of keys first..end-1 of a tile, as the products gave them, to what softmax takes: capped, masked, and -infinity
// where the query does not see. `end` may exceed the tile up to whole vectors.
void shape_scores(const Attention& call, int64_t query, const Span& span, float* scores, int first, int end);

// Neighbouring queries that are computed together, of all heads or of those that share one KV head.
struct Queries {
  int64_t first;
  int64_t count;
  int64_t lowest;   // the smallest of their positions
  int64_t highest;
};

// Unfinished softmax of some rows: `out` is [rows, stride], to be divided by the sums.
struct Partial {
  Running* rows;
  float* out;
  int64_t stride;
};

Queries queries_of(const Attention& call, int64_t first, int64_t count);

void attend(const Attention& call);

}  // namespace edgec
