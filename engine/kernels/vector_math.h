// Exponential, hyperbolic tangent, logistic function and the normal distribution of all lanes.
#pragma once

#include <cstring>

#include "simd.h"

namespace edgec {

// 2^x with a relative error below 1e-7 for x up to 127; exactly 0 below -126. Minimax polynomial of degree 6 for the
// fraction in [-0.5, 0.5], fitted for this file.
inline Vec exp2(Vec x) {
  const Vec shifted = x + 12582912.0f;  // 1.5 * 2^23: the sum's low bits are x rounded to an integer.
  const Vec f = x - (shifted - 12582912.0f);
  Vec p = fma(f, broadcast(1.53457652e-4f), broadcast(1.33999308e-3f));
  p = fma(f, p, broadcast(9.61848913e-3f));
  p = fma(f, p, broadcast(5.55032878e-2f));
  p = fma(f, p, broadcast(2.40226469e-1f));
  p = fma(f, p, broadcast(6.93147206e-1f));
  p = fma(f, p, broadcast(1.0f));
  Words bits, exponent;  // Lanes below -126 overflow, and are not used.
  std::memcpy(&bits, &p, sizeof(bits));
  std::memcpy(&exponent, &shifted, sizeof(exponent));
  bits += exponent << 23;
  Vec power;
  std::memcpy(&power, &bits, sizeof(power));
  return x < -126.0f ? Vec{} : power;
}

// tanh(x) with an absolute error below 2e-7.
inline Vec tanh(Vec x) {
  const Vec bounded = min(max(x, broadcast(-10.0f)), broadcast(10.0f));
  return 1.0f - 2.0f / (exp2(bounded * 2.88539008f) + 1.0f);  // 2 / ln 2
}

// The logistic function, 1 / (1 + e^-x), with an absolute error below 1e-7.
inline Vec sigmoid(Vec x) {
  return 1.0f / (1.0f + exp2(min(x * -1.44269504f, broadcast(126.0f))));  // 1 / ln 2
}

// The share of the standard normal distribution above x >= 0, erfc(x / sqrt(2)) / 2, with a relative error below 3e-6 up
// to 5: t P(t) exp(-x^2 / 2) with t = 1 / (1 + c x), the form of Abramowitz and Stegun's 7.1.26; P was fitted for this file.
inline Vec upper_normal(Vec x) {
  const Vec scaled = x * 0.707106781f;
  const Vec t = 1.0f / fma(scaled, broadcast(0.425f), broadcast(1.0f));
  Vec p = fma(t, broadcast(3.62366140e-2f), broadcast(-1.58653155e-1f));
  p = fma(t, p, broadcast(2.07388148e-1f));
  p = fma(t, p, broadcast(-5.49255684e-2f));
  p = fma(t, p, broadcast(1.29293248e-1f));
  p = fma(t, p, broadcast(9.98210683e-2f));
  p = fma(t, p, broadcast(1.21005885e-1f));
  p = fma(t, p, broadcast(1.19833708e-1f));
  return t * p * exp2(scaled * scaled * -1.44269504f);  // 1 / ln 2
}

}  // namespace edgec
