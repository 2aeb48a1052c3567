// The ExecuTorch backend "EdgecExperts": x float32 [T, 1 or K, width], index int64 [T, K], perhaps a bias [E, rows] ->
// float32 [T, K, rows], from the experts' matrices of few bits in the program's named data, as one matrix after the other.
//
// The delegate's bytes are text (delegate_text.h), beginning with these lines:
//
//     edgec.experts=1
//     experts=64
//     expert_rows=2048          rows of each expert; in the matrix they are filled up to whole blocks
//     block_rows=16  rows=...   the matrix
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <memory>
#include <optional>
#include <vector>

#include "delegate_text.h"
#include "experts.h"
#include "linear/kernel.h"
#include "operators.h"

namespace edgec {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;

struct Handle {
  linear::Matrix matrix;
  std::vector<uint8_t> laid_out;  // where this processor's kernels read another layout than the file has
  int64_t experts;
  int64_t rows;
  std::optional<FreeableBuffer> bytes;
};

Error read(const NamedDataMap& data, std::string_view text, Handle& handle) {
  Lines lines(text);
  const int64_t format = lines.number("edgec.experts");
  handle.experts = lines.number("experts");
  handle.rows = lines.number("expert_rows");
  const Error error = read_matrix(data, lines, handle.matrix, handle.bytes);
  if (error != Error::Ok) return error;
  const int64_t block = handle.matrix.block_rows();
  constexpr int64_t kMost = int64_t{1} << 26;
  const bool sized = format == 1 && handle.experts <= kMost && handle.rows <= kMost &&
                     (handle.rows + block - 1) / block * block * handle.experts == handle.matrix.rows;
  return sized ? Error::Ok : Error::DelegateInvalidCompatibility;
}

// Lays the matrix out for the kernel in force; whether its experts are runs of whole blocks then.
bool lay_out(Handle& handle) {
  linear::Matrix& matrix = handle.matrix;
  linear::Matrix wanted = matrix;
  wanted.layout = linear::kernel_in_force().layout;
  if (wanted.layout == matrix.layout) return true;
  if (matrix.rows / handle.experts % wanted.block_rows() != 0) return false;
  handle.laid_out.resize(static_cast<size_t>(wanted.bytes()));
  linear::relay(matrix, wanted.layout, handle.laid_out.data());
  wanted.data = handle.laid_out.data();
  matrix = wanted;
  return true;
}

bool is_bias(const Handle& handle, const Tensor& bias) {
  return is_float(bias, 2) && bias.size(0) == handle.experts && bias.size(1) == handle.rows;
}

class ExpertsBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               executorch::runtime::ArrayRef<executorch::runtime::CompileSpec>) const override {
    const NamedDataMap* data = context.get_named_data_map();
    if (data == nullptr) return Error::InvalidProgram;
    auto handle = std::make_unique<Handle>();
    const Error error = read(*data, {static_cast<const char*>(processed->data()), processed->size()}, *handle);
    processed->Free();
    if (error != Error::Ok) return error;
    if (!lay_out(*handle)) return Error::DelegateInvalidCompatibility;
    return handle.release();
  }

  Error execute(BackendExecutionContext&, DelegateHandle* opaque,
                executorch::runtime::Span<EValue*> args) const override {
    const auto& handle = *static_cast<const Handle*>(opaque);
    if (args.size() != 3 && args.size() != 4) return Error::InvalidProgram;
    for (const EValue* arg : args) {
      if (!arg->isTensor()) return Error::InvalidProgram;
    }
    const Tensor &x = args[0]->toTensor(), &index = args[1]->toTensor();
    Tensor& out = args[args.size() - 1]->toTensor();
    const bool typed = is_float(x, 3) && is_float(out, 3) && index.scalar_type() == ScalarType::Long && index.dim() == 2;
    if (!typed || index.numel() == 0) return Error::InvalidProgram;
    if (args.size() == 4 && !is_bias(handle, args[2]->toTensor())) return Error::InvalidProgram;
    Experts call{x.const_data_ptr<float>(), index.const_data_ptr<int64_t>(), index.size(0), index.size(1), x.size(1),
                 handle.experts, handle.rows, handle.matrix.width,
                 args.size() == 4 ? args[2]->toTensor().const_data_ptr<float>() : nullptr, nullptr};
    if (x.size(0) != call.tokens || x.size(2) != call.width) return Error::InvalidProgram;
    if (call.x_rows != 1 && call.x_rows != call.choices) return Error::InvalidProgram;
    if (!resized(out, {call.tokens, call.choices, call.rows})) return Error::InvalidProgram;
    call.out = out.mutable_data_ptr<float>();
    multiply_experts(call, handle.matrix);
    return Error::Ok;
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Handle*>(handle); }
};

constexpr const char kName[] = "EdgecExperts";

bool register_backend() {
  if (executorch::runtime::get_backend_class(kName) != nullptr) return false;
  static ExpertsBackend backend;
  return executorch::runtime::register_backend({kName, &backend}) == Error::Ok;
}

[[maybe_unused]] const bool registered = register_backend();

}  // namespace
}  // namespace edgec
