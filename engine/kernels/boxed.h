// Kernels as ExecuTorch calls them: with a row of values, which become the kernel's own parameters here. ExecuTorch's header
// for this (extension/kernel_util) is not among those that its package for Apple's systems exports.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

namespace edgec {

using Values = executorch::runtime::Span<executorch::runtime::EValue*>;

// How a value becomes a parameter of this type.
template <typename T>
struct Parameter {
  static T of(executorch::runtime::EValue& value) { return value.to<T>(); }
};
template <>
struct Parameter<executorch::aten::Tensor> {
  static executorch::aten::Tensor& of(executorch::runtime::EValue& value) { return value.toTensor(); }
};
template <typename T>
struct Parameter<std::optional<T>> {
  static std::optional<T> of(executorch::runtime::EValue& value) { return value.toOptional<T>(); }
};

// Calls `kernel`, and tells the event tracer of it by this name.
template <auto kernel, const char* name>
class Boxed {
 public:
  static void call(executorch::runtime::KernelRuntimeContext& context, Values values) {
    unpack(kernel, context, values);
  }

 private:
  template <typename Result, typename... Types>
  static void unpack(Result (*)(executorch::runtime::KernelRuntimeContext&, Types...),
                     executorch::runtime::KernelRuntimeContext& context, Values values) {
    if (values.size() < sizeof...(Types)) {
      context.fail(executorch::runtime::Error::InvalidProgram);
      return;
    }
    const executorch::runtime::internal::EventTracerProfileOpScope scope(context.internal_event_tracer(), name);
    apply<std::decay_t<Types>...>(context, values, std::index_sequence_for<Types...>());
  }

  template <typename... Types, size_t... index>
  static void apply(executorch::runtime::KernelRuntimeContext& context, Values values, std::index_sequence<index...>) {
    kernel(context, Parameter<Types>::of(*values[index])...);
  }
};

}  // namespace edgec
