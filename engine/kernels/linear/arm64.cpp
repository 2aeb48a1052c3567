#if defined(__aarch64__)

#include "arm64.h"

#include <cstddef>
#include <vector>

namespace edgec::linear {
namespace {

int32_t start_of(const Matrix& matrix) {
  const int32_t middle = matrix.step << (matrix.bits - 1);
  return (middle - matrix.offset) * (1 << (8 - matrix.bits)) / matrix.step;
}

}  // namespace

Rows first_rows(const Matrix& matrix, int64_t block) {
  const bool whole = matrix.scales == Scales::kRow;
  const uint8_t* codes = matrix.block(block);
  const int64_t code_bytes = matrix.run_slices() * matrix.slice_bytes();
  Rows rows;
  rows.codes = codes;
  rows.scales = whole ? nullptr : codes + code_bytes;
  rows.runs = matrix.runs();
  rows.slices = matrix.run_slices();
  rows.run_bytes = matrix.run_bytes();
  rows.start = start_of(matrix);
  rows.step = static_cast<float>(matrix.step);
  rows.row_scales = whole ? codes + code_bytes : nullptr;
  return rows;
}

uint8_t* panel_memory(const Matrix& matrix) {
  static thread_local std::vector<uint8_t> memory;
  const auto bytes = static_cast<std::size_t>(matrix.slices() * kPanelSliceBytes + matrix.runs() * kScaleBytes);
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

TokenTile all_tokens(const Request& request) {
  const Tokens& tokens = request.tokens;
  const int64_t first = request.first_token, stride = tokens.slices * kSlice;
  return {tokens.values + first * stride,
          stride,
          tokens.sums + first * tokens.slices,
          tokens.scales + first * tokens.slices,
          tokens.slices,
          request.token_count,
          request.out,
          request.stride};
}

TokenTile all_pairs(const Request& request) {
  TokenTile tile = all_tokens(request);
  tile.stride *= 2;
  tile.values = request.tokens.pairs + request.first_token / 2 * tile.stride;
  return tile;
}

}  // namespace edgec::linear

#endif
