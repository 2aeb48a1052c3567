// The recurrences whose channels do not meet: short convolutions, Mamba's scan, gated linear recurrences.
#include <cstring>

#include "parallel.h"
#include "partial_vector.h"
#include "states.h"
#include "vector_math.h"

namespace edgec {
namespace {

constexpr float kLog2E = 1.44269504f;

Vec sigmoid(Vec x) {
  return 1.0f / (1.0f + exp2(min(x * -kLog2E, broadcast(126.0f))));
}

// Calls use(first channel, channels) for each vector of channels; threads take neighbouring ones.
template <typename Use>
void for_vectors(int64_t channels, int64_t floats, const Use& use) {
  for_rows((channels + kWidth - 1) / kWidth, floats * kWidth,
           [&](int64_t vector) { use(vector * kWidth, std::min<int64_t>(kWidth, channels - vector * kWidth)); });
}

// The values of a token, or of one before the call.
const float* row_of(const CausalConv& call, int64_t token) {
  return token < 0 ? call.state + (call.taps - 1 + token) * call.channels : call.x + token * call.channels;
}

void filter(const CausalConv& call, int64_t token) {
  for (int64_t channel = 0; channel < call.channels; channel += kWidth) {
    const int64_t count = call.channels - channel;
    Vec sum = call.bias ? load_some(call.bias + channel, count) : Vec{};
    for (int64_t tap = 0; tap < call.taps; tap++) {
      const Vec x = load_some(row_of(call, token - call.taps + 1 + tap) + channel, count);
      sum = fma(load_some(call.weight + tap * call.channels + channel, count), x, sum);
    }
    store_some(call.out + token * call.channels + channel, call.silu ? sum * sigmoid(sum) : sum, count);
  }
}

void scan(const SelectiveScan& call, int64_t channel, int64_t count) {
  for (int64_t token = 0; token < call.tokens; token++) {
    const int64_t at = token * call.channels + channel;
    const Vec x = load_some(call.x + at, count), dt = load_some(call.dt + at, count), step = dt * x;
    Vec sum = call.d ? load_some(call.d + channel, count) * x : Vec{};
    for (int64_t n = 0; n < call.keys; n++) {
      float* held = call.state + n * call.channels + channel;
      const Vec decay = exp2(dt * load_some(call.a + n * call.channels + channel, count) * kLog2E);
      const Vec now = fma(decay, load_some(held, count), step * broadcast(call.b[token * call.keys + n]));
      store_some(held, now, count);
      sum = fma(broadcast(call.c[token * call.keys + n]), now, sum);
    }
    store_some(call.out + at, sum, count);
  }
}

}  // namespace

void causal_conv(const CausalConv& call) {
  for_rows(call.tokens, call.channels * call.taps, [&](int64_t token) { filter(call, token); });
  const int64_t kept = call.taps - 1;
  // Rows move towards the beginning, so that none is read after it was overwritten.
  for (int64_t row = 0; row < kept; row++) {
    const float* from = row_of(call, call.tokens - kept + row);
    std::memcpy(call.state + row * call.channels, from, static_cast<size_t>(call.channels) * sizeof(float));
  }
}

void selective_scan(const SelectiveScan& call) {
  for_vectors(call.channels, call.tokens * call.keys,
              [&](int64_t channel, int64_t count) { scan(call, channel, count); });
}

void linear_recurrence(const LinearRecurrence& call) {
  for_vectors(call.channels, 3 * call.tokens, [&](int64_t channel, int64_t count) {
    Vec held = load_some(call.state + channel, count);
    for (int64_t token = 0; token < call.tokens; token++) {
      const int64_t at = token * call.channels + channel;
      held = fma(load_some(call.decay + at, count), held, load_some(call.x + at, count));
      store_some(call.out + at, held, count);
    }
    store_some(call.state + channel, held, count);
  });
}

}  // namespace edgec
