// A region: what lies between two attentions, as steps over float32 values [tokens, width]. Each token is computed by itself.
//
//     norm        y = rms_norm(x) * weight
//     group       the matrices that read the same x: it is quantised once, or stays in float. y_i = matrix_i x + bias_i, then
//                 add: y_0 + another value; gate: activation(y_0) * y_1, of which only the product is kept
//     binary      y = a + b, a - b or a * b
//     constant    y = x + c or x * c, c [width] or one number
//     function    y = activation(x)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kernels/linear/matrix.h"
#include "activation.h"

namespace edgec {

// A value's number in its region; the inputs come first.
using ValueIndex = int32_t;

struct Product {
  linear::Matrix matrix;
  std::string key;  // of the matrix among the program's named data
  const float* bias;  // [rows] or null
  ValueIndex out;
};

enum class Epilogue { kNone, kAdd, kGate };

struct Group {
  ValueIndex x;
  linear::Inputs inputs;  // how the matrices read x
  std::vector<Product> products;
  Epilogue epilogue;
  ValueIndex other;       // kAdd
  Activation activation;  // kGate
};

struct Norm {
  ValueIndex out;
  ValueIndex x;
  float eps;
  const float* weight;  // [width] or null
};

enum class Arithmetic { kAdd, kSubtract, kMultiply };

struct Binary {
  Arithmetic arithmetic;
  ValueIndex out;
  std::array<ValueIndex, 2> x;
};

struct Constant {
  Arithmetic arithmetic;  // kAdd or kMultiply
  ValueIndex out;
  ValueIndex x;
  const float* values;  // [count]
  int64_t count;        // the width or 1
};

struct Function {
  Activation activation;
  ValueIndex out;
  ValueIndex x;
};

using Step = std::variant<Norm, Group, Binary, Constant, Function>;

struct Region {
  std::vector<int64_t> widths;  // of each value
  int64_t inputs;
  std::vector<ValueIndex> outputs;
  std::vector<Step> steps;
};

// Runs the steps: inputs and outputs [tokens, width].
void run_region(const Region& region, const std::vector<const float*>& inputs, const std::vector<float*>& outputs,
                int64_t tokens);

}  // namespace edgec
