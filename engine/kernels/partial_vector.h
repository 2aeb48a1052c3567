// Loads and stores of a vector of which only the first `count` lanes are in memory.
#pragma once

#include <algorithm>
#include <cstring>

#include "simd.h"

namespace edgec {

inline Vec load_some(const float* from, int64_t count) {
  if (count >= kWidth) return load(from);
  Vec value{};
  std::memcpy(&value, from, static_cast<size_t>(count) * sizeof(float));
  return value;
}

inline void store_some(float* to, Vec value, int64_t count) {
  std::memcpy(to, &value, static_cast<size_t>(std::min<int64_t>(count, kWidth)) * sizeof(float));
}

}  // namespace edgec
