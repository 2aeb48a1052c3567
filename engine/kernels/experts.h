// The matrices of a mixture of experts, of which each token reads those that it chose: edgec::experts (ir/experts.py).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear/matrix.h"

namespace edgec {

struct Experts {
  const float* x;        // [tokens, x_rows, width]
  const int64_t* index;  // [tokens, choices]; a number that is not an expert's gives zeros
  int64_t tokens;
  int64_t choices;
  int64_t x_rows;        // 1: all choices of a token read the same row; else as many as choices
  int64_t experts;
  int64_t rows;          // of each expert's matrix
  int64_t width;
  const float* bias;     // [experts, rows] or null
  float* out;            // [tokens, choices, rows]

  int64_t pairs() const { return tokens * choices; }
  int64_t x_row(int64_t pair) const { return x_rows == 1 ? pair / choices : pair; }
  bool chosen(int64_t pair) const { return index[pair] >= 0 && index[pair] < experts; }
};

// The pairs of a token and a choice by their expert, in the order of the tokens.
struct Routed {
  std::vector<int64_t> pairs;
  std::vector<int64_t> present;  // experts that some token chose
  std::vector<int64_t> ends;     // where the pairs of each of them end
};

// Sorts the pairs by expert, and writes zeros where there is none.
Routed route(const Experts& call);

// weight [experts, rows, width]
void multiply_experts(const Experts& call, const float* weight);

// The same from integers, with x quantised to 8 bits a row or in float: each expert is a run of whole blocks of the matrix.
void multiply_experts(const Experts& call, const linear::Matrix& matrix, linear::Inputs inputs);

}  // namespace edgec
