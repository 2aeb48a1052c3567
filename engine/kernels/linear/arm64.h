// What the kernels of arm64 share: the rows and tokens of a tile, and how tokens are cut into tiles.
//
// A tile takes c = code - 2^(bits - 1), as stored, for code. With start = 2^(bits - 1) - offset / step a slice's whole
// number is step * (sum(c * q) + start * sum(q)). The codes are 2^below too large, since they stay in the highest bits of
// their bytes: the sums, too, until they become floats. The step multiplies the row's sum in the end. Steps are powers of
// two: none of this changes a bit of the result.
#pragma once

#include "kernel.h"

namespace edgec::linear {

// Bytes of a run's scales, which stand after its codes.
constexpr int64_t kScaleBytes = 16;

// What shares a scale: rows; runs of one slice, which have their scales where their codes end; runs of more. Or scales are
// decoded: of slices, or of their halves.
enum class Shares { kRow, kSlice, kRun, kDecoded, kHalf };

constexpr bool stand_in_runs(Shares shares) {
  return shares == Shares::kSlice || shares == Shares::kRun;
}

// The rows of a block.
struct Rows {
  const uint8_t* codes;
  const uint8_t* scales;  // of the first run; decoded ones as floats [slice or half][8]; null where the row is one group
  int64_t runs;
  int64_t slices;     // in a run
  int64_t run_bytes;  // from a run's scales to the next one's
  int32_t start;      // times 2^below
  float step;
  const uint8_t* row_scales;  // null unless the row is one group
};

Rows first_rows(const Matrix& matrix, int64_t block);

// The tokens of a tile, and where their results go.
struct TokenTile {
  const int8_t* values;  // of the first token, or pair of tokens
  int64_t stride;        // bytes between two tokens, or pairs
  const int32_t* sums;  // [count][slices]
  const float* scales;  // [count][slices]
  int64_t slices;
  int64_t count;
  float* out;
  int64_t out_stride;
};

// Bytes of a slice of a panel, which holds the codes of a block unpacked, one in a byte.
constexpr int64_t kPanelSliceBytes = 256;

// Memory of this thread for a panel, valid until it asks again.
uint8_t* panel_memory(const Matrix& matrix);

// What a kernel's multiply() is asked for.
struct Request {
  const Matrix& matrix;
  int64_t first_block, blocks;
  const Tokens& tokens;
  int64_t first_token, token_count;
  float* out;
  int64_t stride;
};

// All tokens of a request for its first block: one by one, and as pairs.
TokenTile all_tokens(const Request& request);
TokenTile all_pairs(const Request& request);

}  // namespace edgec::linear
