// Experts of few bits for tests with plain memory, called through ctypes.
#include "kernels/experts.h"
#include "kernels/linear/kernel.h"

namespace {

// As ctypes lays it out in tests/engine/packed_experts.py.
struct PlainCall {
  int64_t tokens, choices, x_rows, experts, rows;
  int64_t in_float;
  int64_t matrix_rows, width, group, bits, step, offset, scales, layout;
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The kernel that this copy of the library uses for good.
EXPORTED const char* test_kernel() {
  return edgec::linear::kernel_in_force().name;
}

EXPORTED int test_packed_experts(const PlainCall* n, const float* x, const int64_t* index, const float* bias,
                                 const uint8_t* data, float* out) {
  const edgec::linear::Matrix matrix{data, n->matrix_rows, n->width, n->group, static_cast<int>(n->bits),
                                     static_cast<int>(n->step), static_cast<int>(n->offset),
                                     static_cast<edgec::linear::Scales>(n->scales), static_cast<edgec::linear::Layout>(n->layout)};
  if (!edgec::linear::is_matrix(matrix)) return 1;
  const auto inputs = n->in_float != 0 ? edgec::linear::Inputs::kFloat32 : edgec::linear::Inputs::kInt8;
  edgec::multiply_experts({x, index, n->tokens, n->choices, n->x_rows, n->experts, n->rows, n->width, bias, out}, matrix,
                          inputs);
  return 0;
}
