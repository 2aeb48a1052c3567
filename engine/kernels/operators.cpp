// The operators edgec::NAME.out for ExecuTorch, with schemas and meaning in ir/operators.py; loading registers them.
#include "operators.h"

#include <vector>

#include "attention.h"
#include "cache_write.h"
#include "elementwise.h"
#include "experts.h"

namespace edgec {

using executorch::aten::ScalarType;

std::optional<Stored> stored(const Tensor& cache, const Optional& grid) {
  static constexpr std::pair<ScalarType, Kind> kKinds[] = {{ScalarType::Float, Kind::kFloat32},
                                                           {ScalarType::Half, Kind::kFloat16},
                                                           {ScalarType::Char, Kind::kInt8},
                                                           {ScalarType::Byte, Kind::kInt4}};
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const auto& row) { return row.first == cache.scalar_type(); });
  if (kind == std::end(kKinds) || cache.dim() != 4 || cache.size(0) != 1) return {};
  if (cache.numel() == 0) return {};
  const bool integers = kind->second >= Kind::kInt8;
  const int width = static_cast<int>(cache.size(3)) * (kind->second == Kind::kInt4 ? 2 : 1);
  if (integers != grid.has_value() || (integers && width > kWidestIntegers)) return {};
  if (!integers) return Stored{cache.const_data_ptr(), nullptr, kind->second, cache.size(2), width, width};
  if (grid->scalar_type() != ScalarType::Half || grid->dim() != 4) return {};
  if (grid->size(1) != cache.size(1) || grid->size(2) != cache.size(2)) return {};
  const int groups = static_cast<int>(grid->size(3) / 2);
  if (groups < 1 || groups > kMaxGroups || width % groups != 0) return {};
  const int group = width / groups;
  if (kind->second == Kind::kInt8 ? groups != 1 : groups > 1 && (group & (group - 1)) != 0) return {};
  const auto* pairs = static_cast<const uint16_t*>(grid->const_data_ptr());
  return Stored{cache.const_data_ptr(), pairs, kind->second, cache.size(2), width, group};
}

namespace {

Tensor& rms_norm_out(Context& context, const Tensor& x, const Optional& weight, double eps, Tensor& out) {
  EDGEC_CHECK(context, x.dim() > 0 && x.numel() > 0, out);
  const int64_t width = x.size(x.dim() - 1);
  EDGEC_CHECK(context, is_float(x, x.dim()) && is_float(out, x.dim()), out);
  EDGEC_CHECK(context, !weight || (is_float(*weight, 1) && weight->size(0) == width), out);
  EDGEC_CHECK(context, executorch::runtime::resize_tensor(out, x.sizes()) == executorch::runtime::Error::Ok, out);
  const float* factors = weight ? weight->const_data_ptr<float>() : nullptr;
  rms_norm(x.const_data_ptr<float>(), factors, static_cast<float>(eps), x.numel() / width, width,
           out.mutable_data_ptr<float>());
  return out;
}

Tensor& rope_out(Context& context, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& out) {
  EDGEC_CHECK(context, is_float(x, 4) && is_float(cos, 3) && is_float(sin, 3) && is_float(out, 4), out);
  EDGEC_CHECK(context, x.size(0) == 1 && cos.numel() == sin.numel() && cos.size(1) == x.size(1), out);
  EDGEC_CHECK(context, cos.size(2) <= x.size(3) && cos.size(2) % 2 == 0 && cos.size(0) == 1, out);
  EDGEC_CHECK(context, executorch::runtime::resize_tensor(out, x.sizes()) == executorch::runtime::Error::Ok, out);
  rope({x.const_data_ptr<float>(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), x.size(1), x.size(2),
        x.size(3), cos.size(2), out.mutable_data_ptr<float>()});
  return out;
}

// Whether every position has a slot.
bool fit(const Tensor& positions, const Tensor& cache, int64_t ring) {
  const int64_t* at = positions.const_data_ptr<int64_t>();
  const int64_t end = ring > 0 ? INT64_MAX : cache.size(1);
  return std::all_of(at, at + positions.numel(), [&](int64_t p) { return p >= 0 && p < end; });
}

bool is_layout(const Tensor& cache, int64_t ring, int64_t sink) {
  return ring >= 0 && sink >= 0 && sink <= cache.size(1) && (ring == 0 || cache.size(1) - sink == ring);
}

// An sequence's copy of a cache.
Stored owned_by(const Part& part, Stored cache) {
  cache.data = part.own(cache.data);
  if (cache.grid != nullptr) cache.grid = part.own(cache.grid);
  return cache;
}

Tensor& cache_write_out(Context& context, const Tensor& value, const Tensor& positions, Tensor& cache,
                        const Optional& grid, int64_t ring, int64_t sink, Tensor& out) {
  const auto into = stored(cache, grid);
  EDGEC_CHECK(context, into && is_float(value, 4) && is_index(positions) && is_layout(cache, ring, sink), out);
  EDGEC_CHECK(context, value.size(0) == 1 && value.size(1) == positions.numel(), out);
  EDGEC_CHECK(context, value.size(2) == into->heads && value.size(3) == into->width, out);
  EDGEC_CHECK(context, fit(positions, cache, ring) && is_owned(cache) && is_owned(grid), out);
  const bool owned = for_sequences(positions.numel(), positions.numel(), [&](const Part& part) {
    const float* rows = value.const_data_ptr<float>() + part.first * into->heads * into->width;
    write_cache({rows, positions.const_data_ptr<int64_t>() + part.first, part.count, owned_by(part, *into),
                 Geometry{ring, sink, 0, 0}});
    return true;
  });
  EDGEC_CHECK(context, owned, out);
  return out;
}

Tensor& cached_attention_out(Context& context, const Tensor& q, const Tensor& positions, const Tensor& written,
                             const Tensor& keys, const Tensor& values, const Optional& key_grid,
                             const Optional& value_grid, double scale, int64_t window, int64_t ring, int64_t sink,
                             double softcap, const Optional& sink_logits, Tensor& out) {
  const auto k = stored(keys, key_grid), v = stored(values, value_grid);
  EDGEC_CHECK(context, k && v && k->heads == v->heads && keys.size(1) == values.size(1), out);
  EDGEC_CHECK(context, is_float(q, 4) && q.size(0) == 1 && q.size(3) == k->width && q.size(2) % k->heads == 0, out);
  EDGEC_CHECK(context, is_index(positions) && positions.numel() == q.size(1) && is_layout(keys, ring, sink), out);
  EDGEC_CHECK(context, is_index(written) && written.numel() > 0 && fit(written, keys, ring) && window > INT32_MIN, out);
  EDGEC_CHECK(context, !sink_logits || (is_float(*sink_logits, 1) && sink_logits->size(0) == q.size(2)), out);
  EDGEC_CHECK(context, is_float(out, 4) && resized(out, {1, q.size(1), q.size(2), v->width}), out);
  EDGEC_CHECK(context, is_owned(keys) && is_owned(values) && is_owned(key_grid) && is_owned(value_grid), out);
  const float* sinks = sink_logits ? sink_logits->const_data_ptr<float>() : nullptr;
  static thread_local std::vector<Attention> calls;
  calls.clear();
  const bool owned = for_sequences(q.size(1), written.numel(), [&](const Part& part) {
    const int64_t heads = q.size(2), last = written.const_data_ptr<int64_t>()[part.first_token + part.tokens - 1];
    calls.push_back({q.const_data_ptr<float>() + part.first * heads * k->width,
                     positions.const_data_ptr<int64_t>() + part.first, part.count, heads, owned_by(part, *k),
                     owned_by(part, *v), Geometry{ring, sink, window, last}, static_cast<float>(scale),
                     static_cast<float>(softcap), sinks, out.mutable_data_ptr<float>() + part.first * heads * v->width});
    return true;
  });
  EDGEC_CHECK(context, owned, out);
  attend(calls);
  return out;
}

Tensor& experts_out(Context& context, const Tensor& x, const Tensor& index, const Tensor& weight, const Optional& bias,
                    Tensor& out) {
  EDGEC_CHECK(context, is_float(x, 3) && is_float(weight, 3) && is_float(out, 3) && weight.numel() > 0, out);
  EDGEC_CHECK(context, index.scalar_type() == ScalarType::Long && index.dim() == 2 && index.numel() > 0, out);
  const Experts call{x.const_data_ptr<float>(), index.const_data_ptr<int64_t>(), index.size(0), index.size(1),
                     x.size(1), weight.size(0), weight.size(1), weight.size(2),
                     bias ? bias->const_data_ptr<float>() : nullptr, out.mutable_data_ptr<float>()};
  EDGEC_CHECK(context, x.size(0) == call.tokens && x.size(2) == call.width, out);
  EDGEC_CHECK(context, call.x_rows == 1 || call.x_rows == call.choices, out);
  EDGEC_CHECK(context, !bias || (is_float(*bias, 2) && bias->numel() == call.experts * call.rows), out);
  EDGEC_CHECK(context, resized(out, {call.tokens, call.choices, call.rows}), out);
  multiply_experts(call, weight.const_data_ptr<float>());
  return out;
}

constexpr const char kRmsNorm[] = "edgec::rms_norm.out";
constexpr const char kRope[] = "edgec::rope.out";
constexpr const char kCacheWrite[] = "edgec::cache_write.out";
constexpr const char kCachedAttention[] = "edgec::cached_attention.out";
constexpr const char kExperts[] = "edgec::experts.out";

[[maybe_unused]] const bool registered[] = {
    register_absent<rms_norm_out, kRmsNorm>(),
    register_absent<rope_out, kRope>(),
    register_absent<cache_write_out, kCacheWrite>(),
    register_absent<cached_attention_out, kCachedAttention>(),
    register_absent<experts_out, kExperts>(),
};

}  // namespace
}  // namespace edgec
