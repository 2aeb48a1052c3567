#include "elementwise.h"

#include <cmath>
#include <cstring>

#include "parallel.h"
#include "shuffle.h"

namespace edgec {
namespace {

float sum_of_squares(const float* x, int64_t width) {
  Vec sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kWidth <= width; i += 4 * kWidth) {
    for (int j = 0; j < 4; j++) {
      const Vec part = load(x + i + j * kWidth);
      sums[j] = fma(part, part, sums[j]);
    }
  }
  float total = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < width; i++) total += x[i] * x[i];
  return total;
}

// x * cos + rotate_half(x) * sin, over the first 2 * half dimensions.
void rotate(const float* __restrict x, const float* __restrict cos, const float* __restrict sin, int64_t half,
            float* __restrict out) {
  for (int64_t i = 0; i < half; i++) out[i] = x[i] * cos[i] - x[half + i] * sin[i];
  for (int64_t i = 0; i < half; i++) out[half + i] = x[half + i] * cos[half + i] + x[i] * sin[half + i];
}

void scale(const float* __restrict x, const float* __restrict weight, float factor, int64_t width,
           float* __restrict out) {
  if (weight == nullptr) {
    for (int64_t i = 0; i < width; i++) out[i] = x[i] * factor;
  } else {
    for (int64_t i = 0; i < width; i++) out[i] = x[i] * factor * weight[i];
  }
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t width, float* out) {
  for_rows(rows, width, [&](int64_t row) {
    const float mean = sum_of_squares(x + row * width, width) / static_cast<float>(width);
    scale(x + row * width, weight, 1.0f / std::sqrt(mean + eps), width, out + row * width);
  });
}

void rope(const Rope& call) {
  for_rows(call.tokens, call.heads * call.width, [&](int64_t token) {
    const float *cos = call.cos + token * call.rotated, *sin = call.sin + token * call.rotated;
    for (int64_t row = token * call.heads; row < (token + 1) * call.heads; row++) {
      const float* x = call.x + row * call.width;
      float* out = call.out + row * call.width;
      rotate(x, cos, sin, call.rotated / 2, out);
      std::memcpy(out + call.rotated, x + call.rotated, (call.width - call.rotated) * sizeof(float));
    }
  });
}

}  // namespace edgec
