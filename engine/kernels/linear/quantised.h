// Tokens of one call as 8-bit integers or in float, with the memory that holds them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/parallel.h"
#include "kernel.h"
#include "token_sums.h"

namespace edgec::linear {

inline constexpr int64_t kTokensQuantisedAtOnce = 8;

// Memory of tokens; it grows to the largest call seen and stays.
struct Quantised {
  std::vector<int8_t> values, pairs;
  std::vector<int32_t> sums;
  std::vector<float> scales, totals, whole_slices;
  Tokens tokens;

  void resize(int64_t count, int64_t slices, bool paired) {
    const auto bytes = static_cast<size_t>(count * slices * kSlice);
    grow(values, bytes);
    if (paired) grow(pairs, bytes + static_cast<size_t>(slices * kSlice));
    grow(sums, static_cast<size_t>(count * slices));
    grow(scales, static_cast<size_t>(count * slices));
    grow(totals, static_cast<size_t>(count * slices));
    tokens = {count,       slices,        values.data(), paired ? pairs.data() : nullptr,
              sums.data(), scales.data(), totals.data()};
  }

  template <typename T>
  static void grow(std::vector<T>& memory, size_t count) {
    if (memory.size() < count) memory.resize(count);
  }
};

inline void quantise(const Kernel& kernel, const float* x, int64_t width, const Tokens& tokens) {
  const int64_t units = (tokens.count + kTokensQuantisedAtOnce - 1) / kTokensQuantisedAtOnce;
  for_units(units, tokens.count * width >= kFloatsWorthWaking, [&](int64_t unit) {
    const int64_t first = unit * kTokensQuantisedAtOnce;
    kernel.quantize(x, width, first, std::min(kTokensQuantisedAtOnce, tokens.count - first), tokens);
  });
}

// x [count][width] with rows of whole slices: x itself, or a copy in `memory` that is 0 beyond the width.
inline const float* in_whole_slices(const float* x, int64_t width, int64_t count, std::vector<float>& memory) {
  const int64_t padded = (width + kSlice - 1) / kSlice * kSlice;
  if (padded == width) return x;
  memory.assign(static_cast<size_t>(count * padded), 0.0f);
  for (int64_t i = 0; i < count; i++) std::copy_n(x + i * width, width, memory.data() + i * padded);
  return memory.data();
}

// Takes tokens x [count][width of the matrix] in, quantised or in float; the latter may stay where they lie.
inline void take_in(const Kernel& kernel, Inputs inputs, const Matrix& matrix, const float* x, int64_t count,
                    Quantised& memory) {
  if (inputs == Inputs::kFloat32) {
    const float* floats = in_whole_slices(x, matrix.width, count, memory.whole_slices);
    Quantised::grow(memory.totals, static_cast<size_t>(count * matrix.slices()));
    sum_slices(floats, count * matrix.slices(), memory.totals.data());
    memory.tokens = {count, matrix.slices(), nullptr, nullptr, nullptr, nullptr, memory.totals.data(), floats};
    return;
  }
  memory.resize(count, matrix.slices(), kernel.pairs);
  quantise(kernel, x, matrix.width, memory.tokens);
}

// Multiplies tokens of either kind.
inline void multiply(const Kernel& kernel, const Matrix& matrix, int64_t first_block, int64_t blocks,
                     const Tokens& tokens, int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  Multiply* multiply = tokens.floats == nullptr ? kernel.multiply : kernel.multiply_floats;
  multiply(matrix, first_block, blocks, tokens, first_token, token_count, out, stride);
}

}  // namespace edgec::linear
