// The ExecuTorch backend "EdgecEmbedding": tokens int64 [1, S] -> float32 [1, S, width], from a matrix in the program's
// named data. So an embedding that is tied to the lm_head of an XNNPACK delegate is stored once.
//
// The delegate's bytes are text, one NAME=VALUE per line, in this order:
//
//     edgec.embedding=1
//     bits=4                    4, 8 or 32
//     rows=151936
//     width=1024
//     group=32                  values that share a scale; the width unless bits=4
//     weights=KEY               named data, laid out as embedding.h says
//     scales=KEY                empty where bits=32
//
// or, where the matrix lies in the layout of the linear kernels (linear/matrix.h):
//
//     edgec.embedding=4
//     block_rows=16  rows=151936  width=1024  group=32  bits=4  step=1  offset=8  scales=bfloat16  data=KEY     one per line
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "delegate_text.h"
#include "embedding.h"
#include "kernels/linear/matrix.h"
#include "register_backend.h"

namespace edgec {
namespace {

using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;

// A table in either form, and the memory that it points to.
struct Handle {
  Table table;
  std::optional<linear::Matrix> matrix;
  std::optional<FreeableBuffer> weights;
  std::optional<FreeableBuffer> scales;
};

// Products of two such sizes and of a value's bytes stay within 64 bits.
constexpr int64_t kMostRows = int64_t{1} << 30;

bool is_table(const Table& table) {
  const bool known = table.bits == 4 || table.bits == 8 || table.bits == 32;
  const bool bounded = table.rows <= kMostRows && table.width <= kMostRows;
  return known && bounded && (table.bits == 4 ? table.width % table.group == 0 : table.group == table.width);
}

Error read_matrix(const NamedDataMap& data, Lines& lines, Handle& handle) {
  linear::Matrix matrix{};
  const Error error = read_matrix(data, lines, matrix, handle.weights);
  if (error != Error::Ok) return error;
  handle.matrix = matrix;
  handle.table.rows = matrix.rows;
  handle.table.width = matrix.width;
  return Error::Ok;
}

Error read_table(const NamedDataMap& data, std::string_view text, Handle& handle) {
  Lines lines(text);
  const int64_t format = lines.number("edgec.embedding");
  if (format == 4) return read_matrix(data, lines, handle);
  Table& table = handle.table;
  table.bits = static_cast<int>(std::min<int64_t>(lines.number("bits"), INT32_MAX));
  table.rows = lines.number("rows");
  table.width = lines.number("width");
  table.group = lines.number("group");
  const std::string_view weights = lines.value("weights"), scales = lines.value("scales");
  if (!lines.ok() || format != 1 || !is_table(table)) return Error::DelegateInvalidCompatibility;
  Error error = fetch(data, weights, table.weight_bytes(), handle.weights);
  if (error == Error::Ok && table.bits != 32) error = fetch(data, scales, table.scale_bytes(), handle.scales);
  if (error != Error::Ok) return error;
  table.weights = handle.weights->data();
  table.scales = handle.scales ? handle.scales->data() : nullptr;
  return Error::Ok;
}

class EmbeddingBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               executorch::runtime::ArrayRef<executorch::runtime::CompileSpec>) const override {
    const NamedDataMap* data = context.get_named_data_map();
    if (data == nullptr) return Error::InvalidProgram;
    auto handle = std::make_unique<Handle>();
    const Error error = read_table(*data, {static_cast<const char*>(processed->data()), processed->size()}, *handle);
    processed->Free();
    if (error != Error::Ok) return error;
    return handle.release();
  }

  Error execute(BackendExecutionContext&, DelegateHandle* handle,
                executorch::runtime::Span<EValue*> args) const override {
    const auto& [table, matrix, weights, scales] = *static_cast<const Handle*>(handle);
    if (args.size() != 2 || !args[0]->isTensor() || !args[1]->isTensor()) return Error::InvalidProgram;
    const auto& tokens = args[0]->toTensor();
    auto& out = args[1]->toTensor();
    using executorch::aten::ScalarType;
    const bool typed = tokens.scalar_type() == ScalarType::Long && out.scalar_type() == ScalarType::Float;
    if (!typed || out.dim() != 3) return Error::InvalidProgram;
    const int64_t* first = tokens.const_data_ptr<int64_t>();
    const auto known = [rows = table.rows](int64_t token) { return token >= 0 && token < rows; };
    if (!std::all_of(first, first + tokens.numel(), known)) return Error::InvalidArgument;
    const executorch::aten::SizesType sizes[] = {1, static_cast<executorch::aten::SizesType>(tokens.numel()),
                                                 static_cast<executorch::aten::SizesType>(table.width)};
    const Error error = executorch::runtime::resize_tensor(out, {sizes, 3});
    if (error != Error::Ok) return error;
    if (matrix) {
      gather(*matrix, first, tokens.numel(), out.mutable_data_ptr<float>());
    } else {
      gather(table, first, tokens.numel(), out.mutable_data_ptr<float>());
    }
    return Error::Ok;
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Handle*>(handle); }
};

[[maybe_unused]] const bool registered = register_absent_backend<EmbeddingBackend>("EdgecEmbedding");

}  // namespace
}  // namespace edgec
