// Turns ExecuTorch's tensors into the memory of recurrent layers, and registers them (ir/recurrent_layers.py).
#include "operators.h"
#include "recurrent_layers.h"

namespace edgec {
namespace {

using executorch::aten::ScalarType;

// The matrix in a tensor: floats without scales, or bytes with them; none where it is neither.
std::optional<RecurrentMatrix> matrix_of(const Tensor& weight, const Optional& scale) {
  if (weight.dim() != 2 || weight.numel() == 0) return {};
  const int64_t rows = weight.size(0), width = weight.size(1);
  if (!scale) {
    if (weight.scalar_type() != ScalarType::Float) return {};
    return RecurrentMatrix{weight.const_data_ptr<float>(), nullptr, nullptr, rows, width};
  }
  if (weight.scalar_type() != ScalarType::Char || scale->scalar_type() != ScalarType::Float) return {};
  if (scale->numel() != rows) return {};
  return RecurrentMatrix{nullptr, weight.const_data_ptr<int8_t>(), scale->const_data_ptr<float>(), rows, width};
}

// Whether a layer's inputs and states fit its matrix, which has `gates` rows for each value of the hidden state.
bool fits(const Tensor& given, const Tensor& state, const RecurrentMatrix& matrix, int64_t gates) {
  return is_float(given, 3) && given.size(1) > 0 && given.size(2) == matrix.rows &&
         matrix.rows == gates * matrix.width && is_float(state, 2) && state.size(0) == given.size(0) &&
         state.size(1) == matrix.width;
}

Tensor& lstm_out(Context& context, const Tensor& given, const Tensor& hidden, const Tensor& cell, const Tensor& weight,
                 const Optional& scale, bool backwards, Tensor& out) {
  const auto matrix = matrix_of(weight, scale);
  EDGEC_CHECK(context, Sequences::in_force == nullptr && matrix, out);
  EDGEC_CHECK(context, fits(given, hidden, *matrix, 4) && fits(given, cell, *matrix, 4), out);
  const int64_t batch = given.size(0), steps = given.size(1);
  EDGEC_CHECK(context, is_float(out, 3) && resized(out, {batch, steps + 1, matrix->width}), out);
  lstm({given.const_data_ptr<float>(), hidden.const_data_ptr<float>(), *matrix, batch, steps, backwards,
        out.mutable_data_ptr<float>()},
       cell.const_data_ptr<float>());
  return out;
}

Tensor& gru_out(Context& context, const Tensor& given, const Tensor& hidden, const Tensor& weight, const Optional& bias,
                const Optional& scale, bool backwards, Tensor& out) {
  const auto matrix = matrix_of(weight, scale);
  EDGEC_CHECK(context, Sequences::in_force == nullptr && matrix && fits(given, hidden, *matrix, 3), out);
  EDGEC_CHECK(context, !bias || (is_float(*bias, 1) && bias->size(0) == matrix->rows), out);
  const int64_t batch = given.size(0), steps = given.size(1);
  EDGEC_CHECK(context, is_float(out, 3) && resized(out, {batch, steps, matrix->width}), out);
  gru({given.const_data_ptr<float>(), hidden.const_data_ptr<float>(), *matrix, batch, steps, backwards,
       out.mutable_data_ptr<float>()},
      bias ? bias->const_data_ptr<float>() : nullptr);
  return out;
}

constexpr const char kLstm[] = "edgec::lstm.out";
constexpr const char kGru[] = "edgec::gru.out";

[[maybe_unused]] const bool registered[] = {
    register_absent<lstm_out, kLstm>(),
    register_absent<gru_out, kGru>(),
};

}  // namespace
}  // namespace edgec
