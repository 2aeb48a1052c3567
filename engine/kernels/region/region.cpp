#include "region.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"
#include "group.h"

namespace edgec {
namespace {

// Tokens that go through all steps before the next ones: what lies between two steps stays small. A multiple of the
// tokens that a group multiplies at once (group.cpp).
constexpr int64_t kTokensAtOnce = 192;

class Steps {
 public:
  Steps(const Region& region, const std::vector<float*>& values, int64_t tokens)
      : region_(region), values_(values), tokens_(tokens) {}

  void operator()(const Norm& norm) const {
    rms_norm(values_[norm.x], norm.weight, norm.eps, tokens_, region_.widths[norm.out], values_[norm.out]);
  }

  void operator()(const Group& group) const { run_group(group, region_.widths, values_, tokens_); }

  void operator()(const Binary& binary) const {
    const float *a = values_[binary.x[0]], *b = values_[binary.x[1]];
    for_tokens(binary.out, [&](int64_t from, int64_t to, float* out) {
      combine(binary.arithmetic, from, to, out, [&](int64_t i) { return a[i]; }, [&](int64_t i) { return b[i]; });
    });
  }

  void operator()(const Constant& constant) const {
    const float* x = values_[constant.x];
    for_tokens(constant.out, [&](int64_t from, int64_t to, float* out) {
      const auto other = [&](int64_t i) { return constant.values[constant.count == 1 ? 0 : i - from]; };
      combine(constant.arithmetic, from, to, out, [&](int64_t i) { return x[i]; }, other);
    });
  }

  void operator()(const Function& function) const {
    const float* x = values_[function.x];
    for_tokens(function.out, [&](int64_t from, int64_t to, float* out) {
      std::copy(x + from, x + to, out + from);
      activate(function.activation, out + from, to - from);
    });
  }

 private:
  // Calls use(from, to, out) with the range of each token's numbers.
  template <typename Use>
  void for_tokens(ValueIndex out, const Use& use) const {
    const int64_t width = region_.widths[out];
    for_rows(tokens_, width, [&](int64_t token) { use(token * width, (token + 1) * width, values_[out]); });
  }

  template <typename First, typename Second>
  static void combine(Arithmetic arithmetic, int64_t from, int64_t to, float* out, const First& a, const Second& b) {
    switch (arithmetic) {
      case Arithmetic::kAdd:
        for (int64_t i = from; i < to; i++) out[i] = a(i) + b(i);
        return;
      case Arithmetic::kSubtract:
        for (int64_t i = from; i < to; i++) out[i] = a(i) - b(i);
        return;
      case Arithmetic::kMultiply:
        for (int64_t i = from; i < to; i++) out[i] = a(i) * b(i);
        return;
    }
  }

  const Region& region_;
  const std::vector<float*>& values_;
  int64_t tokens_;
};

}  // namespace

void run_region(const Region& region, const std::vector<const float*>& inputs, const std::vector<float*>& outputs,
                int64_t tokens) {
  static thread_local std::vector<std::vector<float>> between;
  between.resize(std::max(between.size(), region.widths.size()));
  std::vector<float*> values(region.widths.size());
  const int64_t at_once = std::min(tokens, kTokensAtOnce);
  for (size_t i = static_cast<size_t>(region.inputs); i < values.size(); i++) {
    if (std::find(region.outputs.begin(), region.outputs.end(), i) != region.outputs.end()) continue;
    const auto floats = static_cast<size_t>(at_once * region.widths[i]);
    if (between[i].size() < floats) between[i].resize(floats);
    values[i] = between[i].data();
  }
  for (int64_t first = 0; first < tokens; first += at_once) {
    for (size_t i = 0; i < inputs.size(); i++) {
      values[i] = const_cast<float*>(inputs[i]) + first * region.widths[i];  // Steps write no input.
    }
    for (size_t i = 0; i < outputs.size(); i++) {
      const ValueIndex value = region.outputs[i];
      values[value] = outputs[i] + first * region.widths[value];
    }
    const Steps steps(region, values, std::min(at_once, tokens - first));
    for (const Step& step : region.steps) std::visit(steps, step);
  }
}

}  // namespace edgec
