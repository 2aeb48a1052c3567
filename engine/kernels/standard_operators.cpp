// Attention and cache operators under ExecuTorch's own names, for a process without its custom-operator library: the
// standalone runner. In Python that library may be loaded later, and would panic.
#include "operators.h"

#include <cmath>
#include <vector>

#include "attention.h"
#include "scratch.h"

namespace edgec {
namespace {

using executorch::aten::ScalarType;

// Copies the tokens of value [1, S, ...] to slots of cache [1, slots, ...], whatever their dtype.
template <typename Slot>
bool copy_tokens(const Tensor& value, Tensor& cache, const Slot& slot) {
  if (value.scalar_type() != cache.scalar_type() || value.dim() != 4 || cache.dim() != 4 || value.numel() == 0) {
    return false;
  }
  if (value.size(0) != 1 || value.size(2) != cache.size(2) || value.size(3) != cache.size(3)) return false;
  const size_t bytes = value.nbytes() / value.size(1);
  const auto* from = static_cast<const char*>(value.const_data_ptr());
  auto* to = static_cast<char*>(cache.mutable_data_ptr());
  for (int64_t token = 0; token < value.size(1); token++) {
    if (slot(token) < 0 || slot(token) >= cache.size(1)) return false;
    std::memcpy(to + slot(token) * bytes, from + token * bytes, bytes);
  }
  return true;
}

Tensor& update_cache_out(Context& context, const Tensor& value, Tensor& cache, int64_t start, Tensor& out) {
  EDGEC_CHECK(context, start >= 0 && cache.dim() == 4 && start < cache.size(1), out);
  EDGEC_CHECK(context, copy_tokens(value, cache, [&](int64_t token) { return start + token; }), out);
  return out;
}

Tensor& update_cache_with_indices_out(Context& context, const Tensor& value, Tensor& cache, int64_t,
                                      const Tensor& indices, Tensor& out) {
  const bool listed = indices.scalar_type() == ScalarType::Long && value.dim() == 4;
  const bool indexed = listed && indices.numel() == value.size(1);
  EDGEC_CHECK(context, indexed, out);
  const int64_t* slots = indices.const_data_ptr<int64_t>();
  EDGEC_CHECK(context, copy_tokens(value, cache, [&](int64_t token) { return slots[token]; }), out);
  return out;
}

struct FloatScratch {};

// The position of each query row: its own where attention is causal, else that of the last key.
const int64_t* positions_of(int64_t queries, int64_t start, int64_t last, bool causal) {
  static thread_local std::vector<int64_t> positions;
  positions.resize(queries);
  for (int64_t i = 0; i < queries; i++) positions[i] = causal ? start + i : last;
  return positions.data();
}

bool is_mask(const Optional& mask, int64_t queries, int64_t slots) {
  return !mask || (is_float(*mask, 2) && mask->size(0) == queries && mask->size(1) <= slots);
}

// Computes attention of float16 queries in float32.
void attend_halves(Attention call, const Tensor& q, Tensor& out) {
  const auto [queries, result] = scratch<FloatScratch>({q.numel(), out.numel()});
  const auto* from = static_cast<const uint16_t*>(q.const_data_ptr());
  auto* to = static_cast<uint16_t*>(out.mutable_data_ptr());
  for (ssize_t i = 0; i < q.numel(); i++) queries[i] = half_to_float(from[i]);
  call.q = queries;
  call.out = result;
  attend(call);
  for (ssize_t i = 0; i < out.numel(); i++) to[i] = float_to_half(result[i]);
}

Tensor& custom_sdpa_out(Context& context, const Tensor& q, const Tensor& keys, const Tensor& values, int64_t start,
                        const Optional& mask, double dropout, bool causal, std::optional<double> scale, Tensor& out) {
  const auto k = stored(keys, {}), v = stored(values, {});
  const bool halves = q.scalar_type() == ScalarType::Half && out.scalar_type() == ScalarType::Half;
  EDGEC_CHECK(context, k && v && k->heads == v->heads && keys.size(1) == values.size(1) && dropout == 0.0, out);
  EDGEC_CHECK(context, q.dim() == 4 && q.size(0) == 1 && q.size(3) == k->width && q.size(2) % k->heads == 0, out);
  EDGEC_CHECK(context, is_mask(mask, q.size(1), keys.size(1)) && (halves || (is_float(q, 4) && is_float(out, 4))), out);
  EDGEC_CHECK(context, resized(out, {1, q.size(1), q.size(2), v->width}), out);
  EDGEC_CHECK(context, start >= 0 && start < keys.size(1), out);
  const int64_t last = (mask ? mask->size(1) : start + q.size(1)) - 1;
  EDGEC_CHECK(context, last < keys.size(1), out);
  Attention call{nullptr, positions_of(q.size(1), start, last, causal && !mask), q.size(1), q.size(2), *k, *v,
                 Geometry{0, 0, 0, last}, static_cast<float>(scale.value_or(1.0 / std::sqrt(k->width))), 0.0f, nullptr,
                 nullptr};
  call.mask = mask ? mask->const_data_ptr<float>() : nullptr;
  call.mask_stride = mask ? mask->size(1) : 0;
  if (halves) {
    attend_halves(call, q, out);
    return out;
  }
  call.q = q.const_data_ptr<float>();
  call.out = out.mutable_data_ptr<float>();
  attend(call);
  return out;
}

constexpr const char kUpdateCache[] = "llama::update_cache.out";
constexpr const char kUpdateCacheWithIndices[] = "llama::update_cache_with_indices.out";
constexpr const char kCustomSdpa[] = "llama::custom_sdpa.out";

}  // namespace
}  // namespace edgec

// Registers the operators that the process lacks.
extern "C" __attribute__((visibility("default"))) void edgec_register_standard_operators() {
  using namespace edgec;
  register_absent<update_cache_out, kUpdateCache>();
  register_absent<update_cache_with_indices_out, kUpdateCacheWithIndices>();
  register_absent<custom_sdpa_out, kCustomSdpa>();
}
