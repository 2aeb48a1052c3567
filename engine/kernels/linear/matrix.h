// Matrices of 2 to 8 bits as they lie in a program: in blocks of rows, in the order in which a kernel reads them.
//
// A value is (step * code - offset) * scale + minimum, with code in 0..2^bits - 1, and with scale and minimum of its group:
//
//     4 bits, symmetric        step 1, offset 8         2 bits, balanced {-3, -1, 1, 3}    step 2, offset 3
//     8 bits, symmetric        step 1, offset 128       ternary, stored as 2 bits          step 1, offset 1
//     3 bits, symmetric        step 1, offset 4         with minimums                       step 1, offset 0
//     5, 6 bits, symmetric     step 1, offset 16, 32
//
// A block holds `block_rows` rows: 16 (x86) or 8 (arm64). Its bytes, one after the other, by what its scales are:
//
//     bfloat16            per group: its slices of 32 values, planes of bits (see below), then scales [block_rows]
//     row                 all slices, then float32 scales [block_rows]: the whole row is one group
//     float16             all slices, then per group: scales [block_rows]
//     float16_minimum     all slices, then per group: scales [block_rows], minimums [block_rows]
//     float16_zero        all slices, then per group: scales [block_rows]; then per group: bytes z [block_rows];
//                         minimum = -z * scale, exactly
//     six_bits            all slices, of 32 values, each a group; then
//                         per slice: bytes [block_rows], the lower four bits of s | those of m << 4
//                         per two slices: bytes [block_rows], the upper bits: s | m << 2 of the first, << 4 of the second
//                         per 8 slices: float16 d [block_rows], float16 e [block_rows]; scale = d * s, minimum = e * m
//     eight_bits          all slices, whose halves are groups; then per half: int8 s [block_rows]
//                         per 8 slices: float16 d [block_rows]; scale = d * s
//
// Codes of 5 and 6 bits have one of the last five, whose step is 1; a step of 2 is for 2 bits.
//
// float16_minimum and six_bits hold GGUF's Q4_1, Q5_1, Q4_K and Q5_K bit for bit (e is its dmin with the other sign),
// float16 Q4_0, Q5_0 and Q8_0, eight_bits Q6_K; float16_zero holds GPTQ's and AWQ's zero points.
//
// A slice is cut into vectors, numbered n = 0, 1, ...: on x86 4 values of 16 rows (64 bytes; n: values 4n..4n+3), on
// arm64 8 values of 2 rows (16 bytes; n = 4s + p: values 8s..8s+7 of rows 2p and 2p + 1). A plane of b bits keeps 8 / b
// vectors in a line of as many bytes: vector n lies in line n * b / 8, at bits b * (n % (8 / b)) of each byte. 3, 5 and 6
// bits are a plane of the low 2 or 4 bits and a plane of the others. On arm64 the highest bit of a code is stored inverted, so that
// the codes are two's complement. Rows and values that fill up a block or a slice have the code of 0 or any code, and scale 0.
#pragma once

#include <cstdint>
#include <string_view>

namespace edgec::linear {

inline constexpr int64_t kSlice = 32;

enum class Layout : int { kRows16 = 16, kRows8 = 8 };

// How tokens reach a matrix: quantised to 8 bits each, or as they are.
enum class Inputs { kInt8, kFloat32 };

enum class Scales : int { kBfloat16, kRow, kFloat16, kFloat16Minimum, kSixBits, kEightBits, kFloat16Zero };

// The form of this name; one that is_matrix() refuses where there is none.
Scales scales_named(std::string_view name);

// Slices whose scales share a float16 number, where they have so few bits.
inline constexpr int64_t kSuperSlices = 8;

struct Matrix {
  const uint8_t* data;
  int64_t rows;
  int64_t width;
  int64_t group;  // values that share a scale; 0: the whole row
  int bits;
  int step;
  int offset;
  Scales scales;
  Layout layout;

  // Whether scales, and minimums, stand after all codes of a block and are made floats before it is multiplied.
  bool decoded() const { return scales != Scales::kBfloat16 && scales != Scales::kRow; }
  bool has_minimums() const {
    return scales == Scales::kFloat16Minimum || scales == Scales::kSixBits || scales == Scales::kFloat16Zero;
  }
  bool has_halves() const { return scales == Scales::kEightBits; }

  int64_t block_rows() const { return static_cast<int64_t>(layout); }
  int64_t blocks() const { return (rows + block_rows() - 1) / block_rows(); }
  int64_t slices() const { return (width + kSlice - 1) / kSlice; }
  int64_t groups() const { return group == 0 ? 1 : width / group; }

  // Runs of codes: with their scales behind them, or all that there are.
  int64_t runs() const { return scales == Scales::kBfloat16 ? groups() : 1; }
  int64_t run_slices() const { return slices() / runs(); }
  int64_t slice_bytes() const { return block_rows() * kSlice * bits / 8; }
  int64_t run_bytes() const {
    return run_slices() * slice_bytes() + (scales == Scales::kBfloat16 ? block_rows() * 2 : 0);
  }
  int64_t tail_bytes() const { return block_rows() * row_tail_bytes(); }
  int64_t block_bytes() const { return runs() * run_bytes() + tail_bytes(); }
  int64_t bytes() const { return blocks() * block_bytes(); }
  int64_t supers() const { return (slices() + kSuperSlices - 1) / kSuperSlices; }

  // Bytes that stand after all codes of a block, for each row.
  int64_t row_tail_bytes() const {
    switch (scales) {
      case Scales::kRow: return 4;
      case Scales::kFloat16: return 2 * groups();
      case Scales::kFloat16Minimum: return 4 * groups();
      case Scales::kFloat16Zero: return 3 * groups();
      case Scales::kSixBits: return slices() + (slices() + 1) / 2 + 4 * supers();
      case Scales::kEightBits: return 2 * slices() + 2 * supers();
      default: return 0;
    }
  }

  const uint8_t* tail(const uint8_t* block) const { return block + runs() * run_bytes(); }
  const uint8_t* block(int64_t index) const { return data + index * block_bytes(); }
};

// Whether the numbers describe a matrix that kernels read: whoever reads them from a file asks this first.
bool is_matrix(const Matrix& matrix);

// What the values of half a slice of a row have in common.
struct Affine {
  float scale;
  float minimum;
};

Affine affine_at(const Matrix& matrix, const uint8_t* block, int64_t row, int64_t half);

// Memory of this thread for so many floats, valid until it asks again.
float* decoded_memory(int64_t floats);

// The codes of a slice of a block, [block_rows][kSlice], without the inversion of arm64.
void read_slice(const Matrix& matrix, const uint8_t* block, int64_t slice, uint8_t* codes);

// The values of a row: float32 [width].
void read_row(const Matrix& matrix, int64_t row, float* values);

// Write the same matrix in another layout: `to` has the bytes of `matrix` with that layout.
void relay(const Matrix& matrix, Layout layout, uint8_t* to);

}  // namespace edgec::linear
