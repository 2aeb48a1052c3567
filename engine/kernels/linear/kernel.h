// A kernel: tokens x a matrix of few bits, on one instruction set. All kernels compute the same bits. Of tokens in 8 bits,
// 32 values of which share a scale:
//
//     slice    scale = largest |x| / 127, and q = clamp(round(x / scale), -127, 127), as torchao's choose_qparams_affine
//              and quantize_affine do (int8, symmetric, blocks of 32)
//     product  whole = step * sum(code * q) - offset * sum(q)                                 exact, int32
//     row      sum = fma(float(whole) * scale of the token's slice, scale of the group, sum), slice after slice, from 0;
//              where the whole row is one group: sum = fma(float(whole), scale of the token's slice, sum), and
//              the result is sum * scale of the row; where a slice is two groups: half after half
//     minimum  sum = fma(minimum, float(sum(q)) * scale of the token's slice, sum), slice after slice, after all the others
//
// Of tokens in float32, where the sums of a slice of 32 values add up every fourth one:
//
//     value    step * code - offset                                                           exact, float32
//     slice    sum_j = fma(value, x, sum_j) for values j, j + 4, ..., j + 28, from 0; whole = (sum_0 + sum_1) + (sum_2 + sum_3)
//     row      sum = fma(whole, scale of the slice's group, sum), slice after slice, from 0; this is the result; where a slice
//              is two groups: half after half, each with sums of its own
//     minimum  sum = fma(minimum, sum(x), sum), slice after slice, after all the others; sum(x) as `whole`, of additions
//
// So a token's result depends neither on the tokens beside it nor on the number of threads nor on the processor.
#pragma once

#include "matrix.h"

namespace edgec::linear {

// Tokens as 8-bit integers, or in float.
struct Tokens {
  int64_t count;
  int64_t slices;
  int8_t* values;  // [count][slices * kSlice], 0 beyond the width
  int8_t* pairs;   // [(count + 1) / 2][slices * 4][2][8]: pairs of tokens, 8 values of each; null unless the kernel asks
  int32_t* sums;   // [count][slices]: sums of the values of each slice
  float* scales;   // [count][slices]
  float* totals;   // [count][slices]: the sums of what the values stand for, as minimums are multiplied with them
  const float* floats = nullptr;  // [count][slices * kSlice], 0 beyond the width; null where there are integers
};

// Multiply tokens first_token.. by rows of the blocks first_block..: out[token][row] with `stride` floats between two
// tokens, block_rows() columns for each block. `first_token` is even.
using Multiply = void(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                      int64_t first_token, int64_t token_count, float* out, int64_t stride);

struct Kernel {
  const char* name;
  Layout layout;
  bool pairs;  // whether it reads Tokens::pairs

  // Quantise tokens first..first + count - 1 of x, float32 [tokens][width]. `first` is even, and `count` is unless the
  // tokens end there.
  void (*quantize)(const float* x, int64_t width, int64_t first, int64_t count, const Tokens& tokens);

  Multiply* multiply;         // tokens in 8 bits
  Multiply* multiply_floats;  // tokens in float
};

// The kernels that this processor has instructions for, best first; the last one is plain C++ and always there.
// A kernel's name is what EDGEC_ISA says: avx512vnni, avxvnni, avx2, i8mm, dotprod, plain.
struct Kernels {
  const Kernel* const* kernels;
  int count;
};
Kernels available_kernels();

// The available kernel of this name, or null.
const Kernel* kernel_named(const char* name);

// Whether this processor, left alone, foresees what is read next better than prefetches do, where few tokens share it.
bool foresees_reading();

// What EDGEC_ISA says, or null. Whoever loads a model refuses a name that is not an available kernel's.
const char* kernel_asked_for();

// The kernel in force: the best one, or the one that EDGEC_ISA names.
const Kernel& kernel_in_force();

}  // namespace edgec::linear
