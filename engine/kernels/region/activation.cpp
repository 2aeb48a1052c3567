#include "activation.h"

#include <cstring>

#include "kernels/vector_math.h"

namespace edgec {
namespace {

Vec gelu_tanh(Vec x) {
  const Vec inner = x * 0.797884561f * fma(x * x, broadcast(0.044715f), broadcast(1.0f));  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanh(inner));
}

Vec gelu(Vec x) {
  const Vec upper = upper_normal(x < 0.0f ? -x : x);
  return x * (x < 0.0f ? upper : 1.0f - upper);
}

// The last numbers go through the same vector code, so that a number's place does not change its result.
template <typename Function>
void for_each(float* x, int64_t count, const Function& function) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store(x + i, function(load(x + i)));
  if (i == count) return;
  float rest[kWidth] = {};
  std::memcpy(rest, x + i, static_cast<size_t>(count - i) * sizeof(float));
  store(rest, function(load(rest)));
  std::memcpy(x + i, rest, static_cast<size_t>(count - i) * sizeof(float));
}

}  // namespace

void activate(Activation activation, float* x, int64_t count) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kSilu:
      return for_each(x, count, [](Vec v) { return v * sigmoid(v); });
    case Activation::kGelu:
      return for_each(x, count, gelu);
    case Activation::kGeluTanh:
      return for_each(x, count, gelu_tanh);
    case Activation::kSigmoid:
      return for_each(x, count, sigmoid);
    case Activation::kTanh:
      return for_each(x, count, [](Vec v) { return tanh(v); });
    case Activation::kRelu:
      return for_each(x, count, [](Vec v) { return max(v, Vec{}); });
  }
}

}  // namespace edgec
