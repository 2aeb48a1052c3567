// Turns ExecuTorch's tensors into the memory that recurrences continue, and registers them (ir/state_operators.py).
// A state is written through a constant reference: ExecuTorch takes a changing tensor before `out` for another output.
#include "operators.h"
#include "states.h"

namespace edgec {
namespace {

// What an operator continues from, as ExecuTorch gives it.
struct Sequence {
  const Tensor& positions;  // [tokens]
  const Tensor& state;
  const Tensor& log;   // [1, capacity, width of a row]
  const Tensor& seen;  // [1, 1, 2]: the tokens that the state has taken in, and those with the log's

  int64_t capacity() const { return log.size(1); }
};

// One session's part of it.
struct Continued {
  const Sequence& all;
  const Part& part;

  const int64_t* at() const { return all.positions.const_data_ptr<int64_t>() + part.first; }
  int64_t* counts() const { return part.own(all.seen.mutable_data_ptr<int64_t>()); }
  float* state() const { return part.own(all.state.mutable_data_ptr<float>()); }
  float* log() const { return part.own(all.log.mutable_data_ptr<float>()); }
};

// Whether the counts are such as calls leave them: a session may have been restored from anywhere.
bool are_counts(int64_t taken, int64_t all, int64_t capacity) {
  return taken >= 0 && all >= taken && all - taken <= capacity;
}

// Whether the tokens begin a sequence or continue it where the state can go back to.
bool continues(const Continued& one) {
  const int64_t start = one.at()[0], *counts = one.counts();
  const bool within = are_counts(counts[0], counts[1], one.all.capacity()) && counts[0] <= start && start <= counts[1];
  if (start != 0 && !within) return false;
  for (int64_t i = 1; i < one.part.count; i++) {
    if (one.at()[i] != start + i) return false;
  }
  return true;
}

// Whether the sequence of every session is such.
bool continues(const Sequence& sequence, int64_t tokens, int64_t width) {
  const auto& [positions, state, log, seen] = sequence;
  if (!is_index(positions) || positions.numel() != tokens || tokens < 1) return false;
  if (!is_float(log, 3) || log.size(0) != 1 || log.size(2) != width) return false;
  if (seen.scalar_type() != executorch::aten::ScalarType::Long || seen.numel() != 2) return false;
  if (!is_owned(state) || !is_owned(log) || !is_owned(seen)) return false;
  return for_sequences(tokens, tokens, [&](const Part& part) { return continues({sequence, part}); });
}

// What to continue from, emptied where a sequence begins; counts the call's tokens.
Held begun(const Continued& one) {
  const int64_t start = one.at()[0], tokens = one.part.count;
  int64_t* counts = one.counts();
  if (start == 0) std::memset(one.state(), 0, one.all.state.nbytes());
  const int64_t replayed = start == 0 ? 0 : start - counts[0];
  const int64_t taken = std::max<int64_t>(1, tokens - one.all.capacity());
  counts[0] = start + taken;
  counts[1] = start + tokens;
  return {one.state(), one.log(), replayed, taken};
}

// Calls compute(first token, tokens, what to continue from) for the tokens of each session.
template <typename Compute>
void each_session(const Sequence& sequence, const Compute& compute) {
  const int64_t tokens = sequence.positions.numel();
  for_sequences(tokens, tokens, [&](const Part& part) {
    compute(part.first, part.count, begun({sequence, part}));
    return true;
  });
}

// The values of a tensor [1, tokens, ...] from one token on.
const float* from_token(const Tensor& x, int64_t token) {
  return x.const_data_ptr<float>() + token * (x.numel() / x.size(1));
}

float* from_token(Tensor& x, int64_t token) {
  return x.mutable_data_ptr<float>() + token * (x.numel() / x.size(1));
}

bool is_sized(const Tensor& tensor, std::initializer_list<int64_t> sizes) {
  if (!is_float(tensor, static_cast<ssize_t>(sizes.size()))) return false;
  return std::equal(sizes.begin(), sizes.end(), tensor.sizes().begin());
}

bool is_sized(const Optional& tensor, std::initializer_list<int64_t> sizes) {
  return !tensor || is_sized(*tensor, sizes);
}

const float* data_of(const Optional& tensor) {
  return tensor ? tensor->const_data_ptr<float>() : nullptr;
}

bool like(Tensor& out, const Tensor& x) {
  return executorch::runtime::resize_tensor(out, x.sizes()) == executorch::runtime::Error::Ok && is_float(out, x.dim());
}

Tensor& cached_conv_out(Context& context, const Tensor& x, const Tensor& weight, const Optional& bias,
                        const Tensor& positions, const Tensor& state, const Tensor& log, const Tensor& seen,
                        bool silu, Tensor& out) {
  EDGEC_CHECK(context, is_float(x, 3) && x.size(0) == 1 && is_float(weight, 2) && weight.size(0) > 0, out);
  const int64_t tokens = x.size(1), channels = x.size(2), taps = weight.size(0);
  EDGEC_CHECK(context, weight.size(1) == channels && is_sized(bias, {channels}), out);
  const Sequence sequence{positions, state, log, seen};
  EDGEC_CHECK(context, is_sized(state, {1, 1, taps - 1, channels}) && continues(sequence, tokens, channels), out);
  EDGEC_CHECK(context, like(out, x), out);
  each_session(sequence, [&](int64_t first, int64_t count, const Held& held) {
    causal_conv({from_token(x, first), weight.const_data_ptr<float>(), data_of(bias), count, channels, taps, silu, held,
                 from_token(out, first)});
  });
  return out;
}

Tensor& cached_delta_rule_out(Context& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& positions, const Tensor& state, const Tensor& log,
                              const Tensor& seen, bool normalize, double scale, Tensor& out) {
  EDGEC_CHECK(context, is_float(k, 4) && is_float(v, 4) && v.size(0) == 1, out);
  const int64_t tokens = v.size(1), groups = k.size(2), heads = v.size(2), keys = k.size(3), values = v.size(3);
  EDGEC_CHECK(context, groups > 0 && heads % groups == 0, out);
  EDGEC_CHECK(context, is_sized(q, {1, tokens, groups, keys}) && is_sized(k, {1, tokens, groups, keys}), out);
  const bool each_key = g.dim() == 4;
  EDGEC_CHECK(context, each_key ? is_sized(g, {1, tokens, heads, keys}) : is_sized(g, {1, tokens, heads}), out);
  EDGEC_CHECK(context, is_sized(beta, {1, tokens, heads}) && is_sized(state, {1, 1, heads, keys, values}), out);
  const Sequence sequence{positions, state, log, seen};
  const int64_t width = groups * keys + heads * (each_key ? keys : 1) + heads * values;
  EDGEC_CHECK(context, continues(sequence, tokens, width) && like(out, v), out);
  each_session(sequence, [&](int64_t first, int64_t count, const Held& held) {
    delta_rule({from_token(q, first), from_token(k, first), from_token(v, first), from_token(g, first),
                from_token(beta, first), count, groups, heads, keys, values, each_key, normalize,
                static_cast<float>(scale), held, from_token(out, first)});
  });
  return out;
}

Tensor& cached_ssd_out(Context& context, const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                       const Tensor& c, const Optional& d, const Tensor& positions, const Tensor& state,
                       const Tensor& log, const Tensor& seen, Tensor& out) {
  EDGEC_CHECK(context, is_float(x, 4) && x.size(0) == 1 && is_float(b, 4), out);
  const int64_t tokens = x.size(1), groups = b.size(2), heads = x.size(2), keys = b.size(3), values = x.size(3);
  EDGEC_CHECK(context, groups > 0 && heads % groups == 0 && is_sized(a, {heads}) && is_sized(d, {heads}), out);
  EDGEC_CHECK(context, is_sized(b, {1, tokens, groups, keys}) && is_sized(c, {1, tokens, groups, keys}), out);
  EDGEC_CHECK(context, is_sized(dt, {1, tokens, heads}) && is_sized(state, {1, 1, heads, keys, values}), out);
  const Sequence sequence{positions, state, log, seen};
  const int64_t width = groups * keys + heads + heads * values;
  EDGEC_CHECK(context, continues(sequence, tokens, width) && like(out, x), out);
  each_session(sequence, [&](int64_t first, int64_t count, const Held& held) {
    ssd({from_token(x, first), from_token(dt, first), a.const_data_ptr<float>(), from_token(b, first),
         from_token(c, first), data_of(d), count, groups, heads, keys, values, held, from_token(out, first)});
  });
  return out;
}

Tensor& cached_scan_out(Context& context, const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                        const Tensor& c, const Optional& d, const Tensor& positions, const Tensor& state,
                        const Tensor& log, const Tensor& seen, Tensor& out) {
  EDGEC_CHECK(context, is_float(x, 3) && x.size(0) == 1 && is_float(a, 2), out);
  const int64_t tokens = x.size(1), channels = x.size(2), keys = a.size(0);
  EDGEC_CHECK(context, a.size(1) == channels && is_sized(d, {channels}) && is_sized(dt, {1, tokens, channels}), out);
  EDGEC_CHECK(context, is_sized(b, {1, tokens, keys}) && is_sized(c, {1, tokens, keys}), out);
  const Sequence sequence{positions, state, log, seen};
  EDGEC_CHECK(context, is_sized(state, {1, 1, keys, channels}), out);
  EDGEC_CHECK(context, continues(sequence, tokens, 2 * channels + keys) && like(out, x), out);
  each_session(sequence, [&](int64_t first, int64_t count, const Held& held) {
    selective_scan({from_token(x, first), from_token(dt, first), a.const_data_ptr<float>(), from_token(b, first),
                    from_token(c, first), data_of(d), count, channels, keys, held, from_token(out, first)});
  });
  return out;
}

Tensor& cached_recurrence_out(Context& context, const Tensor& x, const Tensor& decay, const Tensor& positions,
                              const Tensor& state, const Tensor& log, const Tensor& seen, Tensor& out) {
  EDGEC_CHECK(context, is_float(x, 3) && x.size(0) == 1, out);
  const int64_t tokens = x.size(1), channels = x.size(2);
  EDGEC_CHECK(context, is_sized(decay, {1, tokens, channels}) && is_sized(state, {1, 1, channels}), out);
  const Sequence sequence{positions, state, log, seen};
  EDGEC_CHECK(context, continues(sequence, tokens, 2 * channels) && like(out, x), out);
  each_session(sequence, [&](int64_t first, int64_t count, const Held& held) {
    linear_recurrence({from_token(x, first), from_token(decay, first), count, channels, held, from_token(out, first)});
  });
  return out;
}

Tensor& cached_wkv_out(Context& context, const Tensor& k, const Tensor& v, const Tensor& decay, const Tensor& first,
                       const Tensor& positions, const Tensor& state, const Tensor& log, const Tensor& seen,
                       Tensor& out) {
  EDGEC_CHECK(context, is_float(k, 3) && k.size(0) == 1, out);
  const int64_t tokens = k.size(1), channels = k.size(2);
  EDGEC_CHECK(context, is_sized(v, {1, tokens, channels}) && is_sized(state, {1, 1, 3, channels}), out);
  EDGEC_CHECK(context, is_sized(decay, {channels}) && is_sized(first, {channels}), out);
  const Sequence sequence{positions, state, log, seen};
  EDGEC_CHECK(context, continues(sequence, tokens, 2 * channels) && like(out, k), out);
  each_session(sequence, [&](int64_t from, int64_t count, const Held& held) {
    wkv({from_token(k, from), from_token(v, from), decay.const_data_ptr<float>(), first.const_data_ptr<float>(), count,
         channels, held, from_token(out, from)});
  });
  return out;
}

constexpr const char kConv[] = "edgec::cached_conv.out";
constexpr const char kDeltaRule[] = "edgec::cached_delta_rule.out";
constexpr const char kSsd[] = "edgec::cached_ssd.out";
constexpr const char kScan[] = "edgec::cached_scan.out";
constexpr const char kRecurrence[] = "edgec::cached_recurrence.out";
constexpr const char kWkv[] = "edgec::cached_wkv.out";

[[maybe_unused]] const bool registered[] = {
    register_absent<cached_conv_out, kConv>(),
    register_absent<cached_delta_rule_out, kDeltaRule>(),
    register_absent<cached_ssd_out, kSsd>(),
    register_absent<cached_scan_out, kScan>(),
    register_absent<cached_recurrence_out, kRecurrence>(),
    register_absent<cached_wkv_out, kWkv>(),
};

}  // namespace
}  // namespace edgec
