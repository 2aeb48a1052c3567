#include "cache_write.h"

#include <cstring>

#include "parallel.h"

namespace edgec {
namespace {

struct Range {
  float least;
  float most;
};

// The lowest and highest integer of a kind.
struct Integers {
  float low;
  float high;
};

constexpr Integers integers_of(Kind kind) {
  return kind == Kind::kInt8 ? Integers{-128.0f, 127.0f} : Integers{0.0f, 15.0f};
}

Range range_of(const float* x, int count) {
  Vec least = broadcast(x[0]), most = least;
  int i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    least = min(least, load(x + i));
    most = max(most, load(x + i));
  }
  Range range{-maximum(-least), maximum(most)};
  for (; i < count; i++) range = {std::min(range.least, x[i]), std::max(range.most, x[i])};
  return range;
}

// Each step is the same single float32 operation as in the reference, so the bits agree.
Vec steps_of(Vec x, float offset, float inverse, Integers integers) {
  return min(max(round_even((x - offset) * inverse), broadcast(integers.low)), broadcast(integers.high));
}

// Writes the integers of one group to `bytes`, and its scale and offset to `pair`.
void quantize(const float* x, int count, Integers integers, int8_t* bytes, uint16_t* pair) {
  const Range range = range_of(x, count);
  pair[0] = float_to_half((range.most - range.least) / (integers.high - integers.low));
  const float scale = half_to_float(pair[0]);
  // 0 - low, not -low: no negative zero.
  pair[1] = float_to_half(scale * (0.0f - integers.low) + range.least);
  const float offset = half_to_float(pair[1]), inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (int i = 0; i < count; i += kWidth) {
    float line[kWidth] = {};
    std::memcpy(line, x + i, std::min(kWidth, count - i) * sizeof(float));
    const Vec steps = steps_of(load(line), offset, inverse, integers);
    for (int j = 0; j < std::min(kWidth, count - i); j++) bytes[i + j] = static_cast<int8_t>(steps[j]);
  }
}

void write_integers(const float* x, const Stored& cache, int64_t row) {
  int8_t bytes[kWidestIntegers];
  auto* grid = const_cast<uint16_t*>(cache.grid) + row * 2 * cache.groups();
  for (int g = 0; g < cache.groups(); g++) {
    quantize(x + g * cache.group, cache.group, integers_of(cache.kind), bytes + g * cache.group, grid + 2 * g);
  }
  auto* to = static_cast<uint8_t*>(const_cast<void*>(cache.data));
  if (cache.kind == Kind::kInt8) {
    std::memcpy(to + row * cache.width, bytes, cache.width);
    return;
  }
  to += row * cache.width / 2;
  for (int i = 0; i < cache.width / 2; i++) to[i] = static_cast<uint8_t>(bytes[2 * i] | bytes[2 * i + 1] << 4);
}

void write_halves(const float* x, uint16_t* to, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store_half(to + i, load(x + i));
  for (; i < count; i++) to[i] = float_to_half(x[i]);
}

void write_token(const CacheWrite& call, int64_t token) {
  const Stored& cache = call.cache;
  const int64_t floats = cache.heads * cache.width;
  const float* x = call.value + token * floats;
  const int64_t slot = call.geometry.slot(call.positions[token]);
  void* data = const_cast<void*>(cache.data);
  if (cache.kind == Kind::kFloat32) {
    std::memcpy(static_cast<float*>(data) + slot * floats, x, floats * sizeof(float));
  } else if (cache.kind == Kind::kFloat16) {
    write_halves(x, static_cast<uint16_t*>(data) + slot * floats, floats);
  } else {
    for (int64_t head = 0; head < cache.heads; head++) {
      write_integers(x + head * cache.width, cache, cache.row(slot, head));
    }
  }
}

}  // namespace

void write_cache(const CacheWrite& call) {
  for_rows(call.tokens, call.cache.heads * call.cache.width, [&](int64_t token) { write_token(call, token); });
}

}  // namespace edgec
