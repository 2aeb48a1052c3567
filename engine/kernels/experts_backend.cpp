// The ExecuTorch backend "EdgecExperts": x float32 [T, 1 or K, width], index int64 [T, K], perhaps a bias [E, rows] ->
// float32 [T, K, rows], from the experts' matrices of few bits in the program's named data, as one matrix after the other.
//
// The delegate's bytes are text (delegate_text.h), beginning with these lines:
//
//     edgec.experts=4
//     inputs=int8               or float32: how the matrix reads x
//     experts=64
//     expert_rows=2048          rows of each expert; in the matrix they are filled up to whole blocks
//     block_rows=16  rows=...   the matrix
//
// The matrix is read where it lies in the mapped file, an expert at a time and only those that a token chose: the
// system reads nothing ahead, but the whole of an expert when it is chosen first. A matrix that was laid out anew lies
// in memory.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <memory>
#include <optional>
#include <vector>

#include "delegate_text.h"
#include "experts.h"
#include "kernels/linear/kernel.h"
#include "operators.h"
#include "page_advice.h"
#include "kernels/region/lay_out.h"
#include "register_backend.h"

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
  linear::Inputs inputs = linear::Inputs::kInt8;
  std::vector<HugeMemory> laid_out;  // where this processor's kernels read another layout than the file has
  int64_t experts;
  int64_t rows;
  std::optional<FreeableBuffer> bytes;
  std::vector<bool> asked_for;  // experts that were chosen before; empty where the matrix lies in memory
};

Error read(const NamedDataMap& data, std::string_view text, Handle& handle) {
  Lines lines(text);
  const int64_t format = lines.number("edgec.experts");
  const std::string_view inputs = lines.value("inputs");
  if (inputs == "float32") handle.inputs = linear::Inputs::kFloat32;
  handle.experts = lines.number("experts");
  handle.rows = lines.number("expert_rows");
  const Error error = read_matrix(data, lines, handle.matrix, handle.bytes);
  if (error != Error::Ok) return error;
  const int64_t block = handle.matrix.block_rows();
  constexpr int64_t kMost = int64_t{1} << 26;
  const bool known = format == 4 && (inputs == "int8" || inputs == "float32");
  const bool sized = known && handle.experts <= kMost && handle.rows <= kMost &&
                     (handle.rows + block - 1) / block * block * handle.experts == handle.matrix.rows;
  return sized ? Error::Ok : Error::DelegateInvalidCompatibility;
}

// Whether the experts are runs of whole blocks in the layout that the kernel in force reads.
bool has_whole_blocks(const Handle& handle) {
  linear::Matrix wanted = handle.matrix;
  wanted.layout = linear::kernel_in_force().layout;
  return wanted.rows / handle.experts % wanted.block_rows() == 0;
}

// Lets the system read each expert that is chosen for the first time as a whole.
void ask_for_chosen(const Experts& call, Handle& handle) {
  const int64_t bytes = handle.matrix.blocks() / handle.experts * handle.matrix.block_bytes();
  for (int64_t pair = 0; pair < call.pairs() && !handle.asked_for.empty(); pair++) {
    if (!call.chosen(pair) || handle.asked_for[call.index[pair]]) continue;
    handle.asked_for[call.index[pair]] = true;
    advise_needed(handle.matrix.data + call.index[pair] * bytes, bytes);
  }
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
    if (!has_whole_blocks(*handle)) return Error::DelegateInvalidCompatibility;
    const uint8_t* as_stored = handle->matrix.data;
    if (!lay_out(handle->matrix, handle->laid_out)) return Error::MemoryAllocationFailed;
    if (handle->matrix.data == as_stored) {
      advise_random(as_stored, handle->matrix.bytes());
      handle->asked_for.resize(static_cast<size_t>(handle->experts));
    }
    return handle.release();
  }

  Error execute(BackendExecutionContext&, DelegateHandle* opaque,
                executorch::runtime::Span<EValue*> args) const override {
    auto& handle = *static_cast<Handle*>(opaque);
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
    if (out.size(2) != call.rows || !resized(out, {call.tokens, call.choices, call.rows})) return Error::InvalidProgram;
    call.out = out.mutable_data_ptr<float>();
    ask_for_chosen(call, handle);
    multiply_experts(call, handle.matrix, handle.inputs);
    return Error::Ok;
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Handle*>(handle); }
};

[[maybe_unused]] const bool registered = register_absent_backend<ExpertsBackend>("EdgecExperts");

}  // namespace
}  // namespace edgec
