// Keys or values as a cache holds them, read back as floats.
#pragma once

#include <cstdint>

#include "simd.h"

namespace edgec {

enum class Kind { kFloat32, kFloat16, kInt8, kInt4 };

// More groups than any head has: 32 of 32 values.
inline constexpr int kMaxGroups = 32;

// [slots, heads, width] values of one kind; integers stand on a grid [slots, heads, width / group] of float16 pairs
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
};

// One row of `width` values: row(d) gives kWidth of them from d on, row.one(d) a single one.
template <Kind kind>
class Row;

template <>
class Row<Kind::kFloat32> {
 public:
  Row(const Stored& from, int64_t row) : values_(static_cast<const float*>(from.data) + row * from.width) {}
  Vec operator()(int d) const { return load(values_ + d); }
  float one(int d) const { return values_[d]; }

 private:
  const float* values_;
};

template <>
class Row<Kind::kFloat16> {
 public:
  Row(const Stored& from, int64_t row) : values_(static_cast<const uint16_t*>(from.data) + row * from.width) {}
  Vec operator()(int d) const { return load_half(values_ + d); }
  float one(int d) const { return half_to_float(values_[d]); }

 private:
  const uint16_t* values_;
};

template <>
class Row<Kind::kInt8> {
 public:
  Row(const Stored& from, int64_t row)
      : values_(static_cast<const int8_t*>(from.data) + row * from.width),
        scale_(broadcast(half_to_float(from.grid[2 * row]))),
        offset_(broadcast(half_to_float(from.grid[2 * row + 1]))) {}
  Vec operator()(int d) const { return fma(load_bytes(values_ + d), scale_, offset_); }
  float one(int d) const { return values_[d] * scale_[0] + offset_[0]; }

 private:
  const int8_t* values_;
  Vec scale_, offset_;
};

template <>
class Row<Kind::kInt4> {
 public:
  Row(const Stored& from, int64_t row)
      : values_(static_cast<const uint8_t*>(from.data) + row * from.width / 2),
        shift_(from.groups() == 1 ? 31 : __builtin_ctz(from.group)) {
    const uint16_t* grid = from.grid + row * 2 * from.groups();
    for (int i = 0; i < 2 * from.groups(); i++) grid_[i] = half_to_float(grid[i]);
  }
  Vec operator()(int d) const {
    const float* pair = grid_ + 2 * (d >> shift_);
    return fma(load_nibbles(values_ + d / 2), broadcast(pair[0]), broadcast(pair[1]));
  }
  float one(int d) const {
    const float* pair = grid_ + 2 * (d >> shift_);
    return static_cast<float>(d % 2 ? values_[d / 2] >> 4 : values_[d / 2] & 15) * pair[0] + pair[1];
  }

 private:
  const uint8_t* values_;
  int shift_;
  float grid_[2 * kMaxGroups];
};

// Whether Row(d) may be called for every multiple of kWidth below the width.
inline bool whole_vectors(const Stored& stored) {
  return stored.width % kWidth == 0 && (stored.kind != Kind::kInt4 || stored.group % kWidth == 0);
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

// One row as floats; `to` has room for the width rounded up to whole vectors, and what lies beyond the width is zeroed.
inline void read_row(const Stored& from, int64_t row, float* to) {
  with_kind(from.kind, [&](auto kind) {
    const Row<kind> values(from, row);
    int d = 0;
    if (from.kind != Kind::kInt4 || from.group % kWidth == 0) {
      for (; d + kWidth <= from.width; d += kWidth) store(to + d, values(d));
    }
    for (; d < from.width; d++) to[d] = values.one(d);
    for (; d % kWidth != 0; d++) to[d] = 0.0f;
  });
}

}  // namespace edgec
