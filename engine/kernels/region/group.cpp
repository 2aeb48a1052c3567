#include "group.h"

#include <algorithm>
#include <cstring>

#include "kernels/linear/kernel.h"
#include "kernels/linear/quantised.h"
#include "kernels/parallel.h"
#include "adapter.h"
#include "kernels/scratch.h"

namespace edgec {
namespace {

using linear::Kernel;
using linear::Quantised;
using linear::Matrix;
using linear::Tokens;

// Rows of a matrix that are multiplied, finished and stored before the next ones: their results stay in the L1 cache.
constexpr int64_t kRowsAtOnce = 64;
// Tokens that read a matrix's rows while these lie in a cache. Even, since some kernels take tokens in pairs.
constexpr int64_t kTokensAtOnce = 96;
// Multiply-adds that one thread does in about the time of waking another.
constexpr int64_t kWorthWaking = 1 << 18;

int64_t work(const Group& group, int64_t tokens) {
  int64_t products = 0;
  for (const Product& product : group.products) products += product.matrix.rows * product.matrix.width;
  return products * tokens;
}

// Some rows for some tokens.
struct Part {
  int64_t first_row;
  int64_t rows;
  int64_t first_token;
  int64_t tokens;
};

// One group and the tokens that it is applied to.
class Run {
 public:
  Run(const Group& group, const std::vector<int64_t>& widths, const std::vector<float*>& values,
      const Quantised& quantised, const Kernel& kernel)
      : group_(group), widths_(widths), values_(values), tokens_(quantised.tokens), kernel_(kernel),
        added_(group.products, values[group.x], tokens_.count) {}

  void all() const {
    const int64_t token_parts = (tokens_.count + kTokensAtOnce - 1) / kTokensAtOnce;
    const int64_t row_parts = total_row_parts();
    for_units(row_parts * token_parts, work(group_, tokens_.count) >= kWorthWaking, [&](int64_t unit) {
      const int64_t first = unit % token_parts * kTokensAtOnce;
      run_rows(unit / token_parts, first, std::min(kTokensAtOnce, tokens_.count - first));
    });
  }

 private:
  // A gate's two matrices are multiplied by the same units; other matrices have units each.
  size_t walked() const { return group_.epilogue == Epilogue::kGate ? 1 : group_.products.size(); }

  static int64_t row_parts(const Product& product) { return (product.matrix.rows + kRowsAtOnce - 1) / kRowsAtOnce; }

  int64_t total_row_parts() const {
    int64_t parts = 0;
    for (size_t i = 0; i < walked(); i++) parts += row_parts(group_.products[i]);
    return parts;
  }

  void run_rows(int64_t row_part, int64_t first_token, int64_t tokens) const {
    size_t index = 0;
    for (; row_part >= row_parts(group_.products[index]); index++) row_part -= row_parts(group_.products[index]);
    const int64_t first = row_part * kRowsAtOnce;
    const Part part{first, std::min(kRowsAtOnce, group_.products[index].matrix.rows - first), first_token, tokens};
    auto [results, gates] = scratch<Run, 2>({kTokensAtOnce * kRowsAtOnce, kTokensAtOnce * kRowsAtOnce});
    multiply(index, part, results);
    if (group_.epilogue == Epilogue::kGate) {
      multiply(1, part, gates);
      for (int64_t token = 0; token < tokens; token++) open_gates(part.rows, gates, token, results);
    }
    keep(group_.products[index].out, part, results);
  }

  // results [tokens][kRowsAtOnce], with the bias and what an adapter adds.
  void multiply(size_t index, const Part& part, float* results) const {
    const Product& product = group_.products[index];
    const int64_t block_rows = product.matrix.block_rows();
    const int64_t first = part.first_row / block_rows, blocks = (part.rows + block_rows - 1) / block_rows;
    linear::multiply(kernel_, product.matrix, first, blocks, tokens_, part.first_token, part.tokens, results,
                     kRowsAtOnce);
    for (int64_t token = 0; product.bias != nullptr && token < part.tokens; token++) {
      float* to = results + token * kRowsAtOnce;
      for (int64_t i = 0; i < part.rows; i++) to[i] += product.bias[part.first_row + i];
    }
    added_.add(index, part.first_row, part.rows, part.first_token, part.tokens, results, kRowsAtOnce);
  }

  void open_gates(int64_t rows, const float* gates, int64_t token, float* results) const {
    float* to = results + token * kRowsAtOnce;
    activate(group_.activation, to, rows);
    for (int64_t i = 0; i < rows; i++) to[i] *= gates[token * kRowsAtOnce + i];
  }

  void keep(ValueIndex out, const Part& part, const float* results) const {
    const int64_t width = widths_[out];
    for (int64_t token = 0; token < part.tokens; token++) {
      const float* from = results + token * kRowsAtOnce;
      const int64_t at = (part.first_token + token) * width + part.first_row;
      float* to = values_[out] + at;
      if (group_.epilogue == Epilogue::kAdd) {
        const float* other = values_[group_.other] + at;
        for (int64_t i = 0; i < part.rows; i++) to[i] = from[i] + other[i];
      } else {
        std::memcpy(to, from, static_cast<size_t>(part.rows) * sizeof(float));
      }
    }
  }

  const Group& group_;
  const std::vector<int64_t>& widths_;
  const std::vector<float*>& values_;
  const Tokens& tokens_;
  const Kernel& kernel_;
  const AddedProducts added_;
};

}  // namespace

void run_group(const Group& group, const std::vector<int64_t>& widths, const std::vector<float*>& values,
               int64_t tokens) {
  static thread_local Quantised quantised;
  const Kernel& kernel = linear::kernel_in_force();
  linear::take_in(kernel, group.inputs, group.products[0].matrix, values[group.x], tokens, quantised);
  Run(group, widths, values, quantised, kernel).all();
}

}  // namespace edgec
