// Matrices of 2, 3, 4 or 8 bits as they lie in a program: in blocks of rows, in the order in which a kernel reads them.
//
// A value is step * code - offset, times the scale of its group, with code in 0..2^bits - 1:
//
//     4 bits, symmetric        step 1, offset 8         2 bits, balanced {-3, -1, 1, 3}    step 2, offset 3
//     8 bits, symmetric        step 1, offset 128       ternary, stored as 2 bits          step 1, offset 1
//     3 bits, symmetric        step 1, offset 4
//
// A block holds `block_rows` rows: 16 (x86) or 8 (arm64). Its bytes, one after the other:
//
//     per group     per slice of 32 values: planes of bits, see below
//                   bfloat16 scales [block_rows], unless the whole row is one group
//     then          float32 scales [block_rows], where the whole row is one group
//
// A slice is cut into vectors, numbered n = 0, 1, ...: on x86 4 values of 16 rows (64 bytes; n: values 4n..4n+3), on
// arm64 8 values of 2 rows (16 bytes; n = 4s + p: values 8s..8s+7 of rows 2p and 2p + 1). A plane of b bits keeps 8 / b
// vectors in a line of as many bytes: vector n lies in line n * b / 8, at bits b * (n % (8 / b)) of each byte. 3 bits
// are a plane of the low 2 bits and a plane of the highest. On arm64 the highest bit of a code is stored inverted, so that
// the codes are two's complement. Rows and values that fill up a block or a slice have the code of 0 or any code, and scale 0.
#pragma once

#include <cstdint>

namespace edgec::linear {

inline constexpr int64_t kSlice = 32;

enum class Layout : int { kRows16 = 16, kRows8 = 8 };

// How tokens reach a matrix: quantised to 8 bits each, or as they are.
enum class Inputs { kInt8, kFloat32 };

struct Matrix {
  const uint8_t* data;
  int64_t rows;
  int64_t width;
  int64_t group;  // values that share a scale; 0: the whole row
  int bits;
  int step;
  int offset;
  Layout layout;

  int64_t block_rows() const { return static_cast<int64_t>(layout); }
  int64_t blocks() const { return (rows + block_rows() - 1) / block_rows(); }
  int64_t slices() const { return (width + kSlice - 1) / kSlice; }
  int64_t groups() const { return group == 0 ? 1 : width / group; }
  int64_t group_slices() const { return group == 0 ? slices() : group / kSlice; }
  int64_t slice_bytes() const { return block_rows() * kSlice * bits / 8; }
  int64_t group_bytes() const { return group_slices() * slice_bytes() + (group == 0 ? 0 : block_rows() * 2); }
  int64_t tail_bytes() const { return group == 0 ? block_rows() * 4 : 0; }
  int64_t block_bytes() const { return groups() * group_bytes() + tail_bytes(); }
  int64_t bytes() const { return blocks() * block_bytes(); }
  const uint8_t* block(int64_t index) const { return data + index * block_bytes(); }
};

// Whether the numbers describe a matrix that kernels read: whoever reads them from a file asks this first.
bool is_matrix(const Matrix& matrix);

// The scale of row `row` of a block in one of its groups.
float scale_at(const Matrix& matrix, const uint8_t* block, int64_t row, int64_t group);

// The codes of a slice of a block, [block_rows][kSlice], without the inversion of arm64.
void read_slice(const Matrix& matrix, const uint8_t* block, int64_t slice, uint8_t* codes);

// The values of a row: float32 [width].
void read_row(const Matrix& matrix, int64_t row, float* values);

// Write the same matrix in another layout: `to` has the bytes of `matrix` with that layout.
void relay(const Matrix& matrix, Layout layout, uint8_t* to);

}  // namespace edgec::linear
