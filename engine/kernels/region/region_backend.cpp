// The ExecuTorch backend "EdgecLinear": a region (region.h) per delegate, described as region_text.h says. Its matrices lie in
// the program's named data in the order of reading, and are used where they lie; on a processor of another family they
// are laid out anew when the program is loaded (lay_out.h).
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <memory>
#include <string>
#include <vector>

#include "adapter.h"
#include "lay_out.h"
#include "region_text.h"
#include "kernels/register_backend.h"

namespace edgec {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;

// A region and the memory that it points to.
struct Handle {
  Region region;
  std::vector<FreeableBuffer> data;
  std::vector<HugeMemory> laid_out;
};

const uint8_t* fetch(const NamedDataMap& data, std::string_view key, int64_t bytes, Handle& handle) {
  Result<FreeableBuffer> buffer = data.get_data(key);
  if (!buffer.ok() || static_cast<int64_t>(buffer->size()) < bytes) return nullptr;
  handle.data.push_back(std::move(*buffer));
  const auto* address = static_cast<const uint8_t*>(handle.data.back().data());
  return reinterpret_cast<uintptr_t>(address) % alignof(float) == 0 ? address : nullptr;
}

bool is_rows_of(const EValue& value, int64_t width) {
  if (!value.isTensor()) return false;
  const Tensor& tensor = value.toTensor();
  return tensor.scalar_type() == ScalarType::Float && tensor.dim() == 3 && tensor.size(0) == 1 &&
         tensor.size(2) == width;
}

class LinearBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               executorch::runtime::ArrayRef<executorch::runtime::CompileSpec>) const override {
    const NamedDataMap* data = context.get_named_data_map();
    if (data == nullptr) return Error::InvalidProgram;
    auto handle = std::make_unique<Handle>();
    const std::string_view text(static_cast<const char*>(processed->data()), processed->size());
    const auto find = [&](std::string_view key, int64_t bytes) { return fetch(*data, key, bytes, *handle); };
    const bool read = read_region(text, find, handle->region);
    processed->Free();
    if (!read) return Error::DelegateInvalidCompatibility;
    if (!lay_out(handle->region, handle->laid_out)) return Error::MemoryAllocationFailed;
    note_matrices(handle->region);
    return handle.release();
  }

  Error execute(BackendExecutionContext&, DelegateHandle* opaque,
                executorch::runtime::Span<EValue*> args) const override {
    const Region& region = static_cast<const Handle*>(opaque)->region;
    const auto input_count = static_cast<size_t>(region.inputs);
    if (args.size() != input_count + region.outputs.size()) return Error::InvalidProgram;
    std::vector<const float*> inputs;
    for (size_t i = 0; i < input_count; i++) {
      if (!is_rows_of(*args[i], region.widths[i])) return Error::InvalidArgument;
      inputs.push_back(args[i]->toTensor().const_data_ptr<float>());
    }
    const auto tokens = args[0]->toTensor().size(1);
    for (size_t i = 1; i < input_count; i++) {
      if (args[i]->toTensor().size(1) != tokens) return Error::InvalidArgument;
    }
    std::vector<float*> outputs;
    for (size_t i = 0; i < region.outputs.size(); i++) {
      EValue& value = *args[input_count + i];
      const SizesType sizes[] = {1, static_cast<SizesType>(tokens), static_cast<SizesType>(width(region, i))};
      if (!value.isTensor() || value.toTensor().scalar_type() != ScalarType::Float) return Error::InvalidProgram;
      Tensor& tensor = value.toTensor();
      const Error error = executorch::runtime::resize_tensor(tensor, {sizes, 3});
      if (error != Error::Ok) return error;
      outputs.push_back(tensor.mutable_data_ptr<float>());
    }
    run_region(region, inputs, outputs, tokens);
    return Error::Ok;
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Handle*>(handle); }

 private:
  static int64_t width(const Region& region, size_t output) { return region.widths[region.outputs[output]]; }
};

[[maybe_unused]] const bool registered = register_absent_backend<LinearBackend>("EdgecLinear");

}  // namespace
}  // namespace edgec
