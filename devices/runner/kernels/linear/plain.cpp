// The kernel for any processor.
#include "plain.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace edgec::linear {
namespace {

constexpr int64_t kMostRows = 16;

// std::nearbyint, without a call: the values are far below 2^22.
float rounded(float x) {
  constexpr float kMagic = 12582912.0f;
  return (x + kMagic) - kMagic;
}

float clamped(float x) {
  return x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x;
}

Grid grid_of(const float* x, int64_t width) {
  float low = 0.0f, high = 0.0f;
  for (int64_t i = 0; i < width; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  return grid_between(low, high);
}

void quantize_token(const float* x, int64_t width, int64_t token, const Tokens& tokens) {
  const Grid grid = grid_of(x, width);
  int8_t* values = tokens.values + token * tokens.slices * kSlice;
  for (int64_t slice = 0; slice < tokens.slices; slice++) {
    int32_t sum = 0;
    for (int64_t i = slice * kSlice; i < (slice + 1) * kSlice; i++) {
      values[i] = i < width ? static_cast<int8_t>(clamped(rounded(x[i] * grid.inverse) + grid.zero)) : 0;
      sum += values[i];
    }
    tokens.sums[token * tokens.slices + slice] = sum;
  }
  tokens.scales[token] = grid.scale;
  tokens.zeros[token] = grid.zero;
}

// Adds the products of one slice: codes [rows][kSlice].
void add_slice(const uint8_t* codes, int64_t rows, const int8_t* values, int32_t* sums) {
  for (int64_t row = 0; row < rows; row++) {
    int32_t sum = 0;
    for (int64_t i = 0; i < kSlice; i++) sum += codes[row * kSlice + i] * values[i];
    sums[row] += sum;
  }
}

void multiply_token(const Matrix& matrix, const uint8_t* block, const uint8_t* codes, const int8_t* values,
                    const int32_t* group_sums, float* sums) {
  const int64_t rows = matrix.block_rows(), slices = matrix.group_slices();
  for (int64_t group = 0; group < matrix.groups(); group++) {
    int32_t products[kMostRows] = {};
    for (int64_t slice = group * slices; slice < (group + 1) * slices; slice++) {
      add_slice(codes + slice * rows * kSlice, rows, values + slice * kSlice, products);
    }
    for (int64_t row = 0; row < rows; row++) {
      const auto whole = static_cast<float>(matrix.step * products[row] - matrix.offset * group_sums[group]);
      const float scale = scale_at(matrix, block, row, group);
      sums[row] = matrix.group == 0 ? whole * scale : std::fma(whole, scale, sums[row]);
    }
  }
}

}  // namespace

Grid grid_between(float low, float high) {
  const float scale = (high - low) / 255.0f, least = 1.17549435e-38f;
  const float used = scale < least ? least : scale;
  return {used, 1.0f / used, clamped(-128.0f - rounded(low / used))};
}

void quantize_plainly(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens) {
  for (int64_t token = first; token < first + count; token++) quantize_token(x + token * width, width, token, tokens);
}

void multiply_plainly(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                      const int32_t* sums, int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const int64_t rows = matrix.block_rows(), slice_codes = rows * kSlice;
  static thread_local std::vector<uint8_t> codes;
  codes.resize(static_cast<size_t>(matrix.slices() * slice_codes));
  for (int64_t index = first_block; index < first_block + blocks; index++) {
    const uint8_t* block = matrix.block(index);
    for (int64_t slice = 0; slice < matrix.slices(); slice++) {
      read_slice(matrix, block, slice, codes.data() + slice * slice_codes);
    }
    float row_sums[kMostRows];
    std::memcpy(row_sums, block + matrix.groups() * matrix.group_bytes(), rows * sizeof(float));
    for (int64_t i = 0; i < token_count; i++) {
      const int64_t token = first_token + i;
      float totals[kMostRows] = {};
      multiply_token(matrix, block, codes.data(), tokens.values + token * tokens.slices * kSlice,
                     sums + token * matrix.groups(), totals);
      float* to = out + i * stride + (index - first_block) * rows;
      for (int64_t row = 0; row < rows; row++) {
        to[row] = std::fma(-tokens.zeros[token], row_sums[row], totals[row]) * tokens.scales[token];
      }
    }
  }
}

}  // namespace edgec::linear
