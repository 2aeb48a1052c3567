// Writes keys or values of new tokens into a cache, in the cache's format: edgec::cache_write (ir/operators.py).
#pragma once

#include <cstdint>

#include "geometry.h"
#include "stored.h"

namespace edgec {

struct CacheWrite {
  const float* value;        // [tokens, cache.heads, cache.width]
  const int64_t* positions;  // [tokens]
  int64_t tokens;
  Stored cache;              // its memory is written to
  Geometry geometry;
};

void write_cache(const CacheWrite& call);

}  // namespace edgec
