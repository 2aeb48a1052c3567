#include <algorithm>
#include <cstring>

#include "experts.h"
#include "kernels/linear/kernel.h"
#include "kernels/linear/quantised.h"
#include "parallel.h"
#include "scratch.h"

namespace edgec {
namespace {

using linear::Kernel;
using linear::Matrix;
using linear::Quantised;

// As in region/group.cpp: what is multiplied at once stays in a cache.
constexpr int64_t kRowsAtOnce = 64;
constexpr int64_t kTokensAtOnce = 96;
constexpr int64_t kWorthWaking = 1 << 18;

// Rows of x by expert. An expert's rows begin at an even place, since kernels take tokens in pairs.
struct Gathered {
  std::vector<float> x;
  std::vector<int64_t> starts;  // of each present expert
  int64_t count = 0;
};

void gather(const Experts& call, const Routed& routed, Gathered& gathered) {
  gathered.starts.clear();
  gathered.count = 0;
  for (size_t i = 0; i < routed.present.size(); i++) {
    gathered.starts.push_back(gathered.count);
    const int64_t pairs = routed.ends[i] - (i == 0 ? 0 : routed.ends[i - 1]);
    gathered.count += (pairs + 1) / 2 * 2;
  }
  gathered.x.assign(static_cast<size_t>(gathered.count * call.width), 0.0f);
  for (size_t i = 0; i < routed.present.size(); i++) {
    const int64_t begin = i == 0 ? 0 : routed.ends[i - 1];
    for (int64_t p = begin; p < routed.ends[i]; p++) {
      std::memcpy(gathered.x.data() + (gathered.starts[i] + p - begin) * call.width,
                  call.x + call.x_row(routed.pairs[p]) * call.width, static_cast<size_t>(call.width) * sizeof(float));
    }
  }
}

// Some rows of one expert for some of its tokens.
struct Part {
  int64_t expert;
  int64_t first_row;
  int64_t rows;
  int64_t first_token;  // among the gathered ones
  int64_t tokens;
  const int64_t* pairs;
};

void run_part(const Experts& call, const Matrix& matrix, const Kernel& kernel, const Quantised& quantised,
              const Part& part) {
  const auto [results] = scratch<Part, 1>({kTokensAtOnce * kRowsAtOnce});
  const int64_t per_expert = matrix.blocks() / call.experts;
  const int64_t first = part.expert * per_expert + part.first_row / matrix.block_rows();
  const int64_t blocks = (part.rows + matrix.block_rows() - 1) / matrix.block_rows();
  linear::multiply(kernel, matrix, first, blocks, quantised.tokens, part.first_token, part.tokens, results, kRowsAtOnce);
  for (int64_t token = 0; token < part.tokens; token++) {
    const float* from = results + token * kRowsAtOnce;
    float* to = call.out + part.pairs[token] * call.rows + part.first_row;
    if (call.bias == nullptr) {
      std::memcpy(to, from, static_cast<size_t>(part.rows) * sizeof(float));
      continue;
    }
    const float* bias = call.bias + part.expert * call.rows + part.first_row;
    for (int64_t row = 0; row < part.rows; row++) to[row] = from[row] + bias[row];
  }
}

}  // namespace

void multiply_experts(const Experts& call, const Matrix& matrix, linear::Inputs inputs) {
  static thread_local Quantised quantised;
  static thread_local Gathered gathered;
  const Kernel& kernel = linear::kernel_in_force();
  const Routed routed = route(call);
  gather(call, routed, gathered);
  if (gathered.count == 0) return;
  linear::take_in(kernel, inputs, matrix, gathered.x.data(), gathered.count, quantised);
  std::vector<Part> parts;
  for (size_t i = 0; i < routed.present.size(); i++) {
    const int64_t begin = i == 0 ? 0 : routed.ends[i - 1], count = routed.ends[i] - begin;
    for (int64_t row = 0; row < call.rows; row += kRowsAtOnce) {
      for (int64_t token = 0; token < count; token += kTokensAtOnce) {
        parts.push_back({routed.present[i], row, std::min(kRowsAtOnce, call.rows - row), gathered.starts[i] + token,
                         std::min(kTokensAtOnce, count - token), routed.pairs.data() + begin + token});
      }
    }
  }
  const bool worth_waking = static_cast<int64_t>(routed.pairs.size()) * call.rows * call.width >= kWorthWaking;
  // The tokens belong to this thread; others read them through this reference.
  const Quantised& tokens = quantised;
  for_units(static_cast<int64_t>(parts.size()), worth_waking, [&](int64_t unit) {
    run_part(call, matrix, kernel, tokens, parts[static_cast<size_t>(unit)]);
  });
}

}  // namespace edgec
