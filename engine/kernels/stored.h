// Reading keys or values as floats in the formats that a cache holds.
#pragma once

#include <cstdint>
#include <type_traits>

#include "shuffle.h"
#include "simd.h"

namespace edgec {

enum class Kind { kFloat32, kFloat16, kInt8, kInt4 };

// The most groups that a head may have: 32 of 32 values.
inline constexpr int kMaxGroups = 32;
// The widest head: rows of integers pass through memory of this size.
inline constexpr int kWidestIntegers = 1024;

// [slots, heads, width] values of one kind; integers have a grid [slots, heads, width / group] of float16 pairs
// (scale, offset). `group` is the whole width or a power of two.
struct Stored {
  const void* data;
  const uint16_t* grid;
  Kind kind;
  int64_t heads;
  int width;
  int group;

  int groups() const { return width / group; }
  int64_t row(int64_t slot, int64_t head) const { return slot * heads + head; }
  int64_t row_bytes() const {
    if (kind == Kind::kFloat32) return width * 4;
    if (kind == Kind::kFloat16) return width * 2;
    return kind == Kind::kInt8 ? width : width / 2;
  }
};

// Prefetches rows of one head into the second-level cache: processors do not predict streams that pause at every head.
// Inlined by force: GCC removes calls of a function that only prefetches as useless.
__attribute__((always_inline)) inline void prefetch_rows(const Stored& stored, int64_t slot, int64_t count,
                                                         int64_t head) {
  const int64_t bytes = stored.row_bytes();
  for (int64_t i = 0; i < count; i++) {
    const char* row = static_cast<const char*>(stored.data) + stored.row(slot + i, head) * bytes;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
  }
}

inline constexpr int kPair = 2 * kWidth;

// Whether rows of a kind come as integers, to be multiplied by scale() and shifted by offset() afterwards.
template <Kind kind>
inline constexpr bool kScaled = kind == Kind::kInt8;

// Whether a pair of vectors holds even and odd values instead of consecutive ones.
constexpr bool unzipped(Kind kind) {
  return kind == Kind::kInt4;
}

// One row of `width` values: row(d) gives kPair of them from d on, row.one(d) a single dequantised one.
template <Kind kind>
class Row;

template <>
class Row<Kind::kFloat32> {
 public:
  Row(const Stored& from, int64_t row) : values_(static_cast<const float*>(from.data) + row * from.width) {}
  Pair operator()(int d) const { return {load(values_ + d), load(values_ + d + kWidth)}; }
  float one(int d) const { return values_[d]; }

 private:
  const float* values_;
};

template <>
class Row<Kind::kFloat16> {
 public:
  Row(const Stored& from, int64_t row) : values_(static_cast<const uint16_t*>(from.data) + row * from.width) {}
  Pair operator()(int d) const { return {load_half(values_ + d), load_half(values_ + d + kWidth)}; }
  float one(int d) const { return half_to_float(values_[d]); }

 private:
  const uint16_t* values_;
};

template <>
class Row<Kind::kInt8> {
 public:
  Row(const Stored& from, int64_t row)
      : values_(static_cast<const int8_t*>(from.data) + row * from.width),
        scale_(half_to_float(from.grid[2 * row])),
        offset_(half_to_float(from.grid[2 * row + 1])) {}
  Pair operator()(int d) const { return {load_bytes(values_ + d), load_bytes(values_ + d + kWidth)}; }
  float one(int d) const { return values_[d] * scale_ + offset_; }
  float scale() const { return scale_; }
  float offset() const { return offset_; }

 private:
  const int8_t* values_;
  float scale_, offset_;
};

template <>
class Row<Kind::kInt4> {
 public:
  Row(const Stored& from, int64_t row)
      : values_(static_cast<const uint8_t*>(from.data) + row * from.width / 2),
        shift_(from.groups() == 1 ? 31 : __builtin_ctz(from.group)) {
    halves_to_floats(from.grid + row * 2 * from.groups(), 2 * from.groups(), grid_);
  }
  Pair operator()(int d) const {
    const float* grid = grid_ + 2 * (d >> shift_);
    return load_nibbles(values_ + d / 2, grid[0], grid[1]);
  }
  float one(int d) const {
    const float* grid = grid_ + 2 * (d >> shift_);
    return static_cast<float>(d % 2 ? values_[d / 2] >> 4 : values_[d / 2] & 15) * grid[0] + grid[1];
  }

 private:
  const uint8_t* values_;
  int shift_;
  float grid_[2 * kMaxGroups];
};

// Whether row(d) may be called for every multiple of kPair below the width.
inline bool whole_pairs(const Stored& stored) {
  return stored.width % kPair == 0 && (stored.kind != Kind::kInt4 || stored.group % kPair == 0);
}

// Calls `use` with the kind as a compile-time constant.
template <typename Use>
inline void with_kind(Kind kind, Use use) {
  switch (kind) {
    case Kind::kFloat32: return use(std::integral_constant<Kind, Kind::kFloat32>());
    case Kind::kFloat16: return use(std::integral_constant<Kind, Kind::kFloat16>());
    case Kind::kInt8: return use(std::integral_constant<Kind, Kind::kInt8>());
    case Kind::kInt4: return use(std::integral_constant<Kind, Kind::kInt4>());
  }
}

template <Kind kind>
inline Pair finished(const Row<kind>& row, int d) {
  const Pair values = row(d);
  if constexpr (unzipped(kind)) return zip(values);
  if constexpr (kScaled<kind>) {
    const Vec scale = broadcast(row.scale()), offset = broadcast(row.offset());
    return {fma(values.first, scale, offset), fma(values.second, scale, offset)};
  }
  return values;
}

// Reads one row as floats; `to` has room for the width rounded up to kPair, and the rest is zeroed.
inline void read_row(const Stored& from, int64_t row, float* to) {
  with_kind(from.kind, [&](auto kind) {
    const Row<kind> values(from, row);
    const int pairs = from.kind != Kind::kInt4 || from.group % kPair == 0 ? from.width / kPair : 0;
    for (int d = 0; d < pairs * kPair; d += kPair) {
      const Pair pair = finished<kind>(values, d);
      store(to + d, pair.first);
      store(to + d + kWidth, pair.second);
    }
    int d = pairs * kPair;
    for (; d < from.width; d++) to[d] = values.one(d);
    for (; d % kPair != 0; d++) to[d] = 0.0f;
  });
}

// Brings a row of floats into the order in which Row gives values, and back.
inline void to_lanes(Kind kind, float* row, int width) {
  for (int d = 0; unzipped(kind) && d < width; d += kPair) {
    const Pair pair = unzip({load(row + d), load(row + d + kWidth)});
    store(row + d, pair.first);
    store(row + d + kWidth, pair.second);
  }
}

inline void from_lanes(Kind kind, float* row, int width) {
  for (int d = 0; unzipped(kind) && d < width; d += kPair) {
    const Pair pair = zip({load(row + d), load(row + d + kWidth)});
    store(row + d, pair.first);
    store(row + d + kWidth, pair.second);
  }
}

}  // namespace edgec
