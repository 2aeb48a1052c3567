// The linear kernels for tests with plain memory: called through ctypes, or as a server over pipes (with -DSERVER), whose
// call is a Call, the matrix and the tokens (their lengths follow from the numbers), answered by the output.
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/linear/kernel.h"
#include "kernels/linear/token_sums.h"

namespace {

using edgec::linear::Kernel;
using edgec::linear::Layout;
using edgec::linear::Matrix;
using edgec::linear::Scales;
using edgec::linear::Tokens;

struct Memory {
  std::vector<int8_t> values, pairs;
  std::vector<int32_t> sums;
  std::vector<float> scales, totals;
  Tokens tokens;

  Memory(int64_t count, int64_t slices)
      : values(count * slices * 32 + 64), pairs((count + 1) / 2 * 2 * slices * 32 + 64), sums(count * slices),
        scales(count * slices), totals(count * slices),
        tokens{count, slices, values.data(), pairs.data(), sums.data(), scales.data(), totals.data()} {}
};

int multiply_floats(const Kernel& kernel, const Matrix& matrix, const float* x, int64_t tokens, int64_t part, float* out) {
  // Exactly as many floats as a kernel may read.
  const int64_t width = matrix.slices() * 32, stride = matrix.blocks() * matrix.block_rows();
  std::vector<float> padded(tokens * width);
  for (int64_t i = 0; i < tokens; i++) std::memcpy(&padded[i * width], x + i * matrix.width, matrix.width * sizeof(float));
  std::vector<float> totals(tokens * matrix.slices());
  edgec::linear::sum_slices(padded.data(), tokens * matrix.slices(), totals.data());
  const Tokens floats{tokens, matrix.slices(), nullptr, nullptr, nullptr, nullptr, totals.data(), padded.data()};
  for (int64_t first = 0; first < tokens; first += part) {
    const int64_t count = part < tokens - first ? part : tokens - first;
    kernel.multiply_floats(matrix, 0, matrix.blocks(), floats, first, count, out + first * stride, stride);
  }
  return 0;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct TestMatrix {
  int64_t rows, width, group, bits, step, offset, scales, layout;

  Matrix matrix(const uint8_t* data) const {
    return {data, rows, width, group, static_cast<int>(bits), static_cast<int>(step), static_cast<int>(offset),
            static_cast<Scales>(scales), static_cast<Layout>(layout)};
  }
};

// The names of the kernels that can be called, with blanks between them.
EXPORTED void test_names(char* names) {
  *names = 0;
  const auto available = edgec::linear::available_kernels();
  for (int i = 0; i < available.count; i++) std::strcat(std::strcat(names, available.kernels[i]->name), " ");
}

EXPORTED int64_t test_bytes(const TestMatrix* shape) {
  const Matrix matrix = shape->matrix(nullptr);
  return edgec::linear::is_matrix(matrix) ? matrix.bytes() : -1;
}

// out [tokens][rows rounded up to blocks]. Tokens go in as parts of `part`, which is even unless there is one.
EXPORTED int test_multiply(const char* isa, const TestMatrix* shape, const uint8_t* data, const float* x,
                           int64_t in_float, int64_t tokens, int64_t part, float* out) {
  const Kernel* kernel = edgec::linear::kernel_named(isa);
  const Matrix matrix = shape->matrix(data);
  if (kernel == nullptr || !edgec::linear::is_matrix(matrix)) return 1;
  if (in_float != 0) return multiply_floats(*kernel, matrix, x, tokens, part, out);
  Memory memory(tokens, matrix.slices());
  for (int64_t first = 0; first < tokens; first += part) {
    kernel->quantize(x, matrix.width, first, part < tokens - first ? part : tokens - first, memory.tokens);
  }
  const int64_t stride = matrix.blocks() * matrix.block_rows();
  for (int64_t first = 0; first < tokens; first += part) {
    const int64_t count = part < tokens - first ? part : tokens - first;
    kernel->multiply(matrix, 0, matrix.blocks(), memory.tokens, first, count, out + first * stride, stride);
  }
  return 0;
}

EXPORTED void test_relay(const TestMatrix* shape, const uint8_t* data, int64_t layout, uint8_t* to) {
  edgec::linear::relay(shape->matrix(data), static_cast<Layout>(layout), to);
}

EXPORTED void test_read_row(const TestMatrix* shape, const uint8_t* data, int64_t row, float* values) {
  edgec::linear::read_row(shape->matrix(data), row, values);
}

#if defined(SERVER)
namespace {

struct Call {
  char isa[16];
  TestMatrix shape;
  int64_t in_float, tokens, part;
};

template <typename T>
bool read_all(T* to, int64_t count) {
  return std::fread(to, sizeof(T), count, stdin) == static_cast<size_t>(count);
}

}  // namespace

int main() {
  char names[128];
  test_names(names);
  std::printf("%s\n", names);
  std::fflush(stdout);
  for (Call call; read_all(&call, 1);) {
    const Matrix matrix = call.shape.matrix(nullptr);
    std::vector<uint8_t> data(matrix.bytes());
    std::vector<float> x(call.tokens * matrix.width), out(call.tokens * matrix.blocks() * matrix.block_rows());
    if (!read_all(data.data(), data.size()) || !read_all(x.data(), x.size())) return 1;
    const int failed = test_multiply(call.isa, &call.shape, data.data(), x.data(), call.in_float, call.tokens, call.part,
                                     out.data());
    if (failed != 0) return 2;
    std::fwrite(out.data(), sizeof(float), out.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}
#endif
