// Exponential and hyperbolic tangent of all lanes.
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

}  // namespace edgec
