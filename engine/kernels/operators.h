// Turns ExecuTorch's tensors into the kernels' plain memory, and registers kernels with ExecuTorch.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "boxed.h"
#include "sequences.h"
#include "stored.h"

namespace edgec {

using executorch::aten::Tensor;
using Optional = std::optional<Tensor>;
using Context = executorch::runtime::KernelRuntimeContext;

// Fails the call unless the condition holds, in a function that returns `out`.
#define EDGEC_CHECK(context, condition, out) ET_KERNEL_CHECK(context, condition, InvalidArgument, out)

// ExecuTorch's own `registry_has_op_function` logs an error where the answer is no.
inline bool is_registered(const char* name) {
  const auto kernels = executorch::runtime::get_registered_kernels();
  return std::any_of(kernels.begin(), kernels.end(),
                     [name](const auto& kernel) { return std::strcmp(kernel.name_, name) == 0; });
}

// Registers a kernel unless the process has one with that name: ExecuTorch panics on a second one.
template <auto kernel, const char* name>
bool register_absent() {
  if (is_registered(name)) return false;
  const executorch::runtime::Kernel boxed(name, Boxed<kernel, name>::call);
  return executorch::runtime::register_kernel(boxed) == executorch::runtime::Error::Ok;
}

// The cache in a tensor [1, slots, heads, width]; none where the kernels cannot read its dtype, shape or grid.
std::optional<Stored> stored(const Tensor& cache, const Optional& grid);

inline bool is_float(const Tensor& tensor, ssize_t dimensions) {
  return tensor.scalar_type() == executorch::aten::ScalarType::Float && tensor.dim() == dimensions;
}

inline bool is_index(const Tensor& tensor) {
  return tensor.scalar_type() == executorch::aten::ScalarType::Long && tensor.dim() == 1;
}

// Whether every sequence of the call has a copy of this state.
inline bool is_owned(const Tensor& state) {
  return Sequences::in_force == nullptr || Sequences::in_force->holds(state.const_data_ptr(), state.nbytes());
}

inline bool is_owned(const Optional& state) {
  return !state || is_owned(*state);
}

// Resizes `out`; whether it now has these sizes.
inline bool resized(Tensor& out, std::initializer_list<ssize_t> sizes) {
  std::array<executorch::aten::SizesType, 4> wanted{};
  std::copy(sizes.begin(), sizes.end(), wanted.begin());
  return executorch::runtime::resize_tensor(out, {wanted.data(), sizes.size()}) == executorch::runtime::Error::Ok;
}

}  // namespace edgec
