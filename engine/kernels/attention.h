// Attention of some query rows over a KV cache: the operator edgec::cached_attention (ir/operators.py). Few rows run as
// split-KV decode (row_attention.h), many rows as tiled prefill (tiled_attention.h); attention.cpp chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.h"
#include "softmax.h"
#include "stored.h"

namespace edgec {

// Up to this many tokens are computed exactly as each would be alone: verifying a draft must give what decoding gives.
inline constexpr int64_t kVerifiedQueries = 16;
// Keys of a part in split-KV decode. Parts begin at fixed slots and are added in order, so that a token's result
// depends neither on the tokens computed with it nor on the number of threads.
inline constexpr int64_t kKeysPerPart = 128;

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
  const float* mask = nullptr;  // [heads or 1, queries, mask_stride] or null: by slot, added to what is visible
  int64_t mask_stride = 0;
  int64_t mask_head_stride = 0;  // 0: the same for all heads

  int64_t group() const { return heads / keys.heads; }
  bool verified() const { return queries <= kVerifiedQueries; }
  // The keys that are read begin at a multiple of so many slots.
  int64_t alignment() const { return verified() ? kKeysPerPart : 1; }
  // The factor of the queries: scores come in units of log 2, or divided by the cap.
  float q_factor() const { return softcap > 0 ? scale / softcap : scale * kLog2e; }
};

// Turns the products for keys first..end-1 of a tile into scores for softmax: capped, masked, and -infinity where the
// query does not see. `end` may exceed the tile, rounded up to whole vectors.
void shape_scores(const Attention& call, int64_t query, int64_t head, const Span& span, float* scores, int first,
                  int end);

// Neighbouring queries that are computed together, for all heads or for those that share one KV head.
struct Queries {
  int64_t first;
  int64_t count;
  int64_t lowest;   // the smallest of their positions
  int64_t highest;
};

// The unfinished softmax of some rows over a part of the keys: `out` is [rows, stride], still to be divided by the
// sums.
struct Partial {
  Running* rows;
  float* out;
  int64_t stride;
};

Queries queries_of(const Attention& call, int64_t first, int64_t count);

void attend(const Attention& call);
// Calls of several sessions, each as it would be alone; threads share the parts of all that have few rows.
void attend(const std::vector<Attention>& calls);

}  // namespace edgec
