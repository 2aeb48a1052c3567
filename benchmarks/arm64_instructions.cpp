// Runs the linear kernels of arm64 for arm64_instructions.py. Each line of the input is a case: kernel, bits, step, offset,
// group, rows, width, tokens. getppid is called for the plugin before and after quantisation, and after each of three
// multiplications: the first may allocate memory, the last has half of the rows.
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "kernels/linear/kernel.h"

namespace {

using edgec::linear::Kernel;
using edgec::linear::Matrix;
using edgec::linear::Tokens;

void run(const Kernel& kernel, const Matrix& matrix, int64_t count) {
  const int64_t slices = matrix.slices(), stride = matrix.blocks() * matrix.block_rows();
  std::vector<float> x(count * matrix.width, 0.5f), scales(count * slices), out(count * stride);
  std::vector<int8_t> values(count * slices * 32), pairs((count + 1) / 2 * 2 * slices * 32);
  std::vector<int32_t> sums(count * slices);
  const Tokens tokens = {count, slices, values.data(), pairs.data(), sums.data(), scales.data()};
  getppid();
  kernel.quantize(x.data(), matrix.width, 0, count, tokens);
  getppid();
  const int64_t blocks = matrix.blocks();
  for (int64_t count : {blocks, blocks, blocks / 2}) {
    kernel.multiply(matrix, 0, count, tokens, 0, tokens.count, out.data(), stride);
    getppid();
  }
}

}  // namespace

int main() {
  char name[32];
  Matrix matrix = {};
  matrix.layout = edgec::linear::Layout::kRows8;
  for (long group, rows, width, count;
       std::scanf("%31s %d %d %d %ld %ld %ld %ld", name, &matrix.bits, &matrix.step, &matrix.offset, &group, &rows,
                  &width, &count) == 8;) {
    matrix.group = group;
    matrix.rows = rows;
    matrix.width = width;
    const Kernel* kernel = edgec::linear::kernel_named(name);
    if (kernel == nullptr || !edgec::linear::is_matrix(matrix)) return 1;
    const std::vector<uint8_t> data(matrix.bytes(), 0x5a);
    matrix.data = data.data();
    run(*kernel, matrix, count);
  }
  return 0;
}
