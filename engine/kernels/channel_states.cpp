// The recurrences whose channels do not meet: short convolutions, Mamba's scan, gated linear recurrences.
#include <cstring>

#include "parallel.h"
#include "partial_vector.h"
#include "scratch.h"
#include "states.h"
#include "vector_math.h"

namespace edgec {
namespace {

constexpr float kLog2E = 1.44269504f;

// Calls use(first channel, channels) for each vector of channels; threads take neighbouring ones.
template <typename Use>
void for_vectors(int64_t channels, int64_t floats, const Use& use) {
  for_rows((channels + kWidth - 1) / kWidth, floats * kWidth,
           [&](int64_t vector) { use(vector * kWidth, std::min<int64_t>(kWidth, channels - vector * kWidth)); });
}

// The values of a token, or of one before the call: in the log, or before that in the state.
const float* row_of(const CausalConv& call, int64_t token) {
  if (token >= 0) return call.x + token * call.channels;
  const int64_t logged = call.held.replayed + token;
  if (logged >= 0) return call.held.log + logged * call.channels;
  return call.held.state + (call.taps - 1 + logged) * call.channels;
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

struct ScanScratch {};

// One vector of channels, whose values of state are held beside each other.
class Scan {
 public:
  Scan(const SelectiveScan& call, int64_t channel, int64_t count)
      : call_(call), channel_(channel), count_(count), held_(scratch<ScanScratch>({call.keys * kWidth})[0]) {
    for (int64_t n = 0; n < call.keys; n++) store(held_ + n * kWidth, load_some(state(n), count));
  }

  // Takes in what a token writes, and returns what C reads then; null: nothing.
  Vec advance(Vec dt, Vec step, const float* b, const float* c) const {
    Vec sum{};
    for (int64_t n = 0; n < call_.keys; n++) {
      float* held = held_ + n * kWidth;
      const Vec decay = exp2(dt * load_some(call_.a + n * call_.channels + channel_, count_) * kLog2E);
      const Vec now = fma(decay, load(held), step * broadcast(b[n]));
      store(held, now);
      if (c != nullptr) sum = fma(broadcast(c[n]), now, sum);
    }
    return sum;
  }

  void keep() const {
    for (int64_t n = 0; n < call_.keys; n++) store_some(state(n), load(held_ + n * kWidth), count_);
  }

 private:
  float* state(int64_t n) const { return call_.held.state + n * call_.channels + channel_; }

  const SelectiveScan& call_;
  int64_t channel_, count_;
  float* held_;
};

int64_t row_width(const SelectiveScan& call) {
  return 2 * call.channels + call.keys;
}

void scan(const SelectiveScan& call, int64_t channel, int64_t count) {
  const Scan held(call, channel, count);
  for (int64_t row = 0; row < call.held.replayed; row++) {
    const float* logged = call.held.log + row * row_width(call);
    const Vec dt = load_some(logged + channel, count), step = load_some(logged + call.channels + channel, count);
    held.advance(dt, step, logged + 2 * call.channels, nullptr);
  }
  for (int64_t token = 0; token < call.tokens; token++) {
    const int64_t at = token * call.channels + channel;
    const Vec x = load_some(call.x + at, count), dt = load_some(call.dt + at, count), step = dt * x;
    const Vec read = held.advance(dt, step, call.b + token * call.keys, call.c + token * call.keys);
    store_some(call.out + at, call.d ? fma(load_some(call.d + channel, count), x, read) : read, count);
    if (token + 1 == call.held.taken) held.keep();
    if (token < call.held.taken) continue;
    float* logged = call.held.log + (token - call.held.taken) * row_width(call);
    store_some(logged + channel, dt, count);
    store_some(logged + call.channels + channel, step, count);
  }
}

void recur(const LinearRecurrence& call, int64_t channel, int64_t count) {
  Vec held = load_some(call.held.state + channel, count);
  for (int64_t row = 0; row < call.held.replayed; row++) {
    const float* logged = call.held.log + row * 2 * call.channels + channel;
    held = fma(load_some(logged, count), held, load_some(logged + call.channels, count));
  }
  for (int64_t token = 0; token < call.tokens; token++) {
    const int64_t at = token * call.channels + channel;
    const Vec decay = load_some(call.decay + at, count), x = load_some(call.x + at, count);
    held = fma(decay, held, x);
    store_some(call.out + at, held, count);
    if (token + 1 == call.held.taken) store_some(call.held.state + channel, held, count);
    if (token < call.held.taken) continue;
    float* logged = call.held.log + (token - call.held.taken) * 2 * call.channels + channel;
    store_some(logged, decay, count);
    store_some(logged + call.channels, x, count);
  }
}

// The exponentials of two exponents relative to the greater one.
struct Shares {
  Shares(Vec past, Vec now) : highest(max(past, now)), past(relative(past)), now(relative(now)) {}

  Vec relative(Vec exponent) const { return exp2((exponent - highest) * kLog2E); }

  Vec highest, past, now;
};

// A vector of channels' means so far: sums relative to the exponential of their greatest exponent.
class Average {
 public:
  Average(const Wkv& call, int64_t channel, int64_t count)
      : state_(call.held.state + channel),
        channels_(call.channels),
        count_(count),
        decay_(load_some(call.decay + channel, count)),
        first_(load_some(call.first + channel, count)),
        numerator_(load_some(state_, count)),
        denominator_(load_some(state_ + channels_, count)),
        highest_(load_some(state_ + 2 * channels_, count)) {
    constexpr float kNoExponent = -1e30f;  // NO_EXPONENT of ir/recurrence.py
    for (int lane = 0; lane < kWidth; lane++) {
      if (denominator_[lane] == 0.0f) highest_[lane] = kNoExponent;
    }
  }

  Vec read(Vec k, Vec v) const {
    const Shares shares(highest_, k + first_);
    return fma(shares.past, numerator_, shares.now * v) / fma(shares.past, denominator_, shares.now);
  }

  void advance(Vec k, Vec v) {
    const Shares shares(highest_ + decay_, k);
    numerator_ = fma(shares.past, numerator_, shares.now * v);
    denominator_ = fma(shares.past, denominator_, shares.now);
    highest_ = shares.highest;
  }

  void keep() const {
    store_some(state_, numerator_, count_);
    store_some(state_ + channels_, denominator_, count_);
    store_some(state_ + 2 * channels_, highest_, count_);
  }

 private:
  float* state_;
  int64_t channels_, count_;
  Vec decay_, first_, numerator_, denominator_, highest_;
};

void average(const Wkv& call, int64_t channel, int64_t count) {
  Average held(call, channel, count);
  for (int64_t row = 0; row < call.held.replayed; row++) {
    const float* logged = call.held.log + row * 2 * call.channels + channel;
    held.advance(load_some(logged, count), load_some(logged + call.channels, count));
  }
  for (int64_t token = 0; token < call.tokens; token++) {
    const int64_t at = token * call.channels + channel;
    const Vec k = load_some(call.k + at, count), v = load_some(call.v + at, count);
    store_some(call.out + at, held.read(k, v), count);
    held.advance(k, v);
    if (token + 1 == call.held.taken) held.keep();
    if (token < call.held.taken) continue;
    float* logged = call.held.log + (token - call.held.taken) * 2 * call.channels + channel;
    store_some(logged, k, count);
    store_some(logged + call.channels, v, count);
  }
}

}  // namespace

void causal_conv(const CausalConv& call) {
  for_rows(call.tokens, call.channels * call.taps, [&](int64_t token) { filter(call, token); });
  const int64_t kept = call.taps - 1, later = call.tokens - call.held.taken;
  const auto row_bytes = static_cast<size_t>(call.channels) * sizeof(float);
  // Rows move towards the beginning, so that none is read after it was overwritten.
  for (int64_t row = 0; row < kept; row++) {
    std::memcpy(call.held.state + row * call.channels, row_of(call, call.held.taken - kept + row), row_bytes);
  }
  std::memcpy(call.held.log, row_of(call, call.held.taken), static_cast<size_t>(later) * row_bytes);
}

void selective_scan(const SelectiveScan& call) {
  for_vectors(call.channels, (call.held.replayed + call.tokens) * call.keys,
              [&](int64_t channel, int64_t count) { scan(call, channel, count); });
  for (int64_t token = call.held.taken; token < call.tokens; token++) {
    float* logged = call.held.log + (token - call.held.taken) * row_width(call) + 2 * call.channels;
    std::memcpy(logged, call.b + token * call.keys, static_cast<size_t>(call.keys) * sizeof(float));
  }
}

void linear_recurrence(const LinearRecurrence& call) {
  for_vectors(call.channels, 3 * (call.held.replayed + call.tokens),
              [&](int64_t channel, int64_t count) { recur(call, channel, count); });
}

void wkv(const Wkv& call) {
  for_vectors(call.channels, 8 * (call.held.replayed + call.tokens),
              [&](int64_t channel, int64_t count) { average(call, channel, count); });
}

}  // namespace edgec
