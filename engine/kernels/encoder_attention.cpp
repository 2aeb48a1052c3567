// Attention that sees all keys (an encoder's own, a decoder's of an encoder) and attention with a bias of its scores:
// edgec::encoder_attention and edgec::biased_attention, with schemas and meaning in ir/encoder_operators.py.
#include <vector>

#include "attention.h"
#include "operators.h"

namespace edgec {
namespace {

bool is_one_or(int64_t size, int64_t wanted) {
  return size == 1 || size == wanted;
}

// A bias is [1, H or 1, S or 1, T], with a value for each key that may be seen.
bool is_bias(const Optional& bias, const Tensor& q, int64_t keys) {
  return !bias || (is_float(*bias, 4) && bias->size(0) == 1 && is_one_or(bias->size(1), q.size(2)) &&
                   is_one_or(bias->size(2), q.size(1)) && bias->size(3) >= keys);
}

void with_bias(Attention& call, const Optional& bias) {
  if (!bias) return;
  call.mask = bias->const_data_ptr<float>();
  call.mask_stride = bias->size(2) == 1 ? 0 : bias->size(3);
  call.mask_head_stride = bias->size(1) == 1 ? 0 : bias->size(2) * bias->size(3);
}

bool is_query(const Tensor& q, const Stored& keys) {
  return is_float(q, 4) && q.size(0) == 1 && q.size(3) == keys.width && q.size(2) % keys.heads == 0;
}

Tensor& encoder_attention_out(Context& context, const Tensor& q, const Tensor& keys, const Tensor& values,
                              const Optional& bias, double scale, Tensor& out) {
  const auto k = stored(keys, {}), v = stored(values, {});
  EDGEC_CHECK(context, Sequences::in_force == nullptr, out);
  EDGEC_CHECK(context, k && v && k->heads == v->heads && keys.size(1) == values.size(1), out);
  EDGEC_CHECK(context, is_query(q, *k) && is_bias(bias, q, keys.size(1)), out);
  EDGEC_CHECK(context, is_float(out, 4) && resized(out, {1, q.size(1), q.size(2), v->width}), out);
  const int64_t last = keys.size(1) - 1;
  static thread_local std::vector<int64_t> positions;
  positions.assign(q.size(1), last);
  Attention call{q.const_data_ptr<float>(), positions.data(), q.size(1), q.size(2), *k, *v, Geometry{0, 0, 0, last},
                 static_cast<float>(scale), 0.0f, nullptr, out.mutable_data_ptr<float>()};
  with_bias(call, bias);
  attend(call);
  return out;
}

Tensor& biased_attention_out(Context& context, const Tensor& q, const Tensor& positions, const Tensor& keys,
                             const Tensor& values, const Optional& key_grid, const Optional& value_grid,
                             const Tensor& bias, double scale, Tensor& out) {
  const auto k = stored(keys, key_grid), v = stored(values, value_grid);
  EDGEC_CHECK(context, Sequences::in_force == nullptr, out);
  EDGEC_CHECK(context, k && v && k->heads == v->heads && keys.size(1) == values.size(1), out);
  EDGEC_CHECK(context, is_query(q, *k) && is_bias(bias, q, keys.size(1)), out);
  EDGEC_CHECK(context, is_index(positions) && positions.numel() == q.size(1) && positions.numel() > 0, out);
  const int64_t* at = positions.const_data_ptr<int64_t>();
  EDGEC_CHECK(context, std::all_of(at, at + q.size(1), [&](int64_t p) { return p >= 0 && p < keys.size(1); }), out);
  EDGEC_CHECK(context, is_float(out, 4) && resized(out, {1, q.size(1), q.size(2), v->width}), out);
  Attention call{q.const_data_ptr<float>(), at, q.size(1), q.size(2), *k, *v, Geometry{0, 0, 0, at[q.size(1) - 1]},
                 static_cast<float>(scale), 0.0f, nullptr, out.mutable_data_ptr<float>()};
  with_bias(call, bias);
  attend(call);
  return out;
}

constexpr const char kEncoderAttention[] = "edgec::encoder_attention.out";
constexpr const char kBiasedAttention[] = "edgec::biased_attention.out";

[[maybe_unused]] const bool registered[] = {
    register_absent<encoder_attention_out, kEncoderAttention>(),
    register_absent<biased_attention_out, kBiasedAttention>(),
};

}  // namespace
}  // namespace edgec
