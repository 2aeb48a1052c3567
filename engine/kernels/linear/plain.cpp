// The kernel for any processor.
#include "plain.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace edgec::linear {
namespace {

constexpr int64_t kMostRows = 16;

// std::nearbyint, without a call: the values are far below 2^22.
float rounded(float x) {
  constexpr float kMagic = 12582912.0f;
  return (x + kMagic) - kMagic;
}

// 0 where x is not a number.
float clamped(float x) {
  return x < -127.0f ? -127.0f : x > 127.0f ? 127.0f : x == x ? x : 0.0f;
}

float largest_of(const float* x, int64_t count) {
  float largest = 0.0f;
  for (int64_t i = 0; i < count; i++) largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  return largest;
}

// 32 values, or what is left of the width.
void quantize_slice(const float* x, int64_t count, int8_t* values, int32_t* sum, float* scale, float* total) {
  const SliceGrid grid = slice_grid(largest_of(x, count));
  *sum = 0;
  for (int64_t i = 0; i < kSlice; i++) {
    values[i] = i < count ? static_cast<int8_t>(clamped(rounded(x[i] * grid.inverse))) : 0;
    *sum += values[i];
  }
  *scale = grid.scale;
  *total = static_cast<float>(*sum) * grid.scale;
}

void quantize_token(const float* x, int64_t width, int64_t token, const Tokens& tokens) {
  for (int64_t slice = 0; slice < tokens.slices; slice++) {
    const int64_t at = slice * kSlice, index = token * tokens.slices + slice;
    quantize_slice(x + at, width - at < kSlice ? width - at : kSlice, tokens.values + index * kSlice,
                   tokens.sums + index, tokens.scales + index, tokens.totals + index);
  }
}

// The sum of the values of half a slice, times what a code of 0 stands for.
int32_t sum_of(const int8_t* values, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

// The whole numbers of a row's `count` values from `first` of a slice on.
float whole_number(const Matrix& matrix, const uint8_t* codes, const int8_t* values, int64_t count) {
  int32_t product = 0;
  for (int64_t i = 0; i < count; i++) product += codes[i] * values[i];
  return static_cast<float>(matrix.step * product - matrix.offset * sum_of(values, count));
}

// The sums of a block's rows for one token; codes [slices][rows][kSlice].
void multiply_token(const Matrix& matrix, const uint8_t* block, const uint8_t* codes, const Tokens& tokens,
                    int64_t token, float* sums) {
  const int64_t rows = matrix.block_rows(), first = token * tokens.slices, parts = matrix.has_halves() ? 2 : 1;
  const int64_t count = kSlice / parts;
  for (int64_t part = 0; part < matrix.slices() * parts; part++) {
    const int64_t slice = part / parts, at = part % parts * count;
    const float token_scale = tokens.scales[first + slice];
    const int8_t* values = tokens.values + (first + slice) * kSlice + at;
    for (int64_t row = 0; row < rows; row++) {
      const float whole = whole_number(matrix, codes + (slice * rows + row) * kSlice + at, values, count);
      const float scale = affine_at(matrix, block, row, part * 2 / parts).scale;
      sums[row] = matrix.scales == Scales::kRow ? std::fma(whole, token_scale, sums[row])
                                                : std::fma(whole * token_scale, scale, sums[row]);
    }
  }
  for (int64_t row = 0; row < rows && matrix.scales == Scales::kRow; row++) sums[row] *= affine_at(matrix, block, row, 0).scale;
  for (int64_t slice = 0; slice < matrix.slices() && matrix.has_minimums(); slice++) {
    for (int64_t row = 0; row < rows; row++) {
      sums[row] = std::fma(affine_at(matrix, block, row, 2 * slice).minimum, tokens.totals[first + slice], sums[row]);
    }
  }
}

}  // namespace

void quantize_plainly(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens) {
  for (int64_t token = first; token < first + count; token++) quantize_token(x + token * width, width, token, tokens);
}

void multiply_plainly(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                      int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const int64_t rows = matrix.block_rows(), slice_codes = rows * kSlice;
  static thread_local std::vector<uint8_t> codes;
  codes.resize(static_cast<size_t>(matrix.slices() * slice_codes));
  for (int64_t index = first_block; index < first_block + blocks; index++) {
    const uint8_t* block = matrix.block(index);
    for (int64_t slice = 0; slice < matrix.slices(); slice++) {
      read_slice(matrix, block, slice, codes.data() + slice * slice_codes);
    }
    for (int64_t i = 0; i < token_count; i++) {
      float* to = out + i * stride + (index - first_block) * rows;
      std::fill_n(to, rows, 0.0f);
      multiply_token(matrix, block, codes.data(), tokens, first_token + i, to);
    }
  }
}

}  // namespace edgec::linear
