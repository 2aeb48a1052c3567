// LSTM and GRU: at each step one product of a matrix with the hidden state, which threads share by rows, then the gates.
#include "recurrent_layers.h"

#include <cstring>

#include "parallel.h"
#include "partial_vector.h"
#include "scratch.h"
#include "shuffle.h"
#include "vector_math.h"

namespace edgec {
namespace {

// Rows that are multiplied together, so that as many sums hide the latency of an addition.
constexpr int64_t kRows = 8;

struct GateScratch {};

struct FloatRows {
  const float* values;

  Vec vector(int64_t at) const { return load(values + at); }
  float one(int64_t at) const { return values[at]; }
};

struct ByteRows {
  const int8_t* values;

  Vec vector(int64_t at) const { return load_bytes(values + at); }
  float one(int64_t at) const { return static_cast<float>(values[at]); }
};

template <int64_t count, typename Rows>
void dot(const Rows& rows, const RecurrentMatrix& matrix, int64_t first, const float* x, float* out) {
  const int64_t width = matrix.width, whole = width / kWidth * kWidth;
  Vec sums[count] = {};
  for (int64_t k = 0; k < whole; k += kWidth) {
    const Vec read = load(x + k);
    for (int64_t r = 0; r < count; r++) sums[r] = fma(rows.vector((first + r) * width + k), read, sums[r]);
  }
  float totals[count];
  if constexpr (count % 4 == 0) {
    for (int64_t r = 0; r < count; r += 4) {
      const Vec4 four = sum_each(sums[r], sums[r + 1], sums[r + 2], sums[r + 3]);
      std::memcpy(totals + r, &four, sizeof(four));
    }
  } else {
    for (int64_t r = 0; r < count; r++) totals[r] = sum(sums[r]);
  }
  for (int64_t r = 0; r < count; r++) {
    for (int64_t k = whole; k < width; k++) totals[r] += rows.one((first + r) * width + k) * x[k];
    out[first + r] = matrix.scales == nullptr ? totals[r] : totals[r] * matrix.scales[first + r];
  }
}

template <typename Rows>
void multiply(const Rows& rows, const RecurrentMatrix& matrix, const float* x, float* out) {
  for_rows((matrix.rows + kRows - 1) / kRows, kRows * matrix.width, [&](int64_t block) {
    const int64_t first = block * kRows;
    if (first + kRows <= matrix.rows) return dot<kRows>(rows, matrix, first, x, out);
    for (int64_t row = first; row < matrix.rows; row++) dot<1>(rows, matrix, row, x, out);
  });
}

void multiply(const RecurrentMatrix& matrix, const float* x, float* out) {
  if (matrix.bytes != nullptr) return multiply(ByteRows{matrix.bytes}, matrix, x, out);
  multiply(FloatRows{matrix.floats}, matrix, x, out);
}

// One sequence of a batch: where its parts lie, in the order in which steps are taken.
struct Sequence {
  Sequence(const RecurrentLayer& layer, int64_t index, int64_t rows_of_out)
      : layer(layer),
        given(layer.given + index * layer.steps * layer.weight.rows),
        before(layer.hidden + index * layer.weight.width),
        out(layer.out + index * rows_of_out * layer.weight.width) {}

  int64_t place(int64_t step) const { return layer.backwards ? layer.steps - 1 - step : step; }
  const float* added(int64_t step) const { return given + place(step) * layer.weight.rows; }
  float* hidden(int64_t step) const { return out + place(step) * layer.weight.width; }
  const float* last(int64_t step) const { return step == 0 ? before : hidden(step - 1); }

  const RecurrentLayer& layer;
  const float* given;
  const float* before;
  float* out;
};

float* gates_of(const RecurrentLayer& layer) {
  return scratch<GateScratch>({layer.weight.rows})[0];
}

}  // namespace

void lstm(const RecurrentLayer& layer, const float* cell) {
  const int64_t width = layer.weight.width;
  float* gates = gates_of(layer);
  for (int64_t index = 0; index < layer.batch; index++) {
    const Sequence one(layer, index, layer.steps + 1);
    float* held = one.out + layer.steps * width;
    std::memcpy(held, cell + index * width, static_cast<size_t>(width) * sizeof(float));
    for (int64_t step = 0; step < layer.steps; step++) {
      multiply(layer.weight, one.last(step), gates);
      const float* added = one.added(step);
      for (int64_t j = 0; j < width; j += kWidth) {
        const int64_t count = width - j;
        const auto gate = [&](int64_t part) {
          const int64_t at = part * width + j;
          return load_some(gates + at, count) + load_some(added + at, count);
        };
        const Vec taken = sigmoid(gate(0)) * tanh(gate(2));
        const Vec now = fma(sigmoid(gate(1)), load_some(held + j, count), taken);
        store_some(held + j, now, count);
        store_some(one.hidden(step) + j, sigmoid(gate(3)) * tanh(now), count);
      }
    }
  }
}

void gru(const RecurrentLayer& layer, const float* bias) {
  const int64_t width = layer.weight.width;
  float* gates = gates_of(layer);
  for (int64_t index = 0; index < layer.batch; index++) {
    const Sequence one(layer, index, layer.steps);
    for (int64_t step = 0; step < layer.steps; step++) {
      const float *last = one.last(step), *added = one.added(step);
      multiply(layer.weight, last, gates);
      for (int64_t j = 0; j < width; j += kWidth) {
        const int64_t count = width - j;
        const auto own = [&](int64_t part) {
          const Vec product = load_some(gates + part * width + j, count);
          return bias == nullptr ? product : product + load_some(bias + part * width + j, count);
        };
        const auto input = [&](int64_t part) { return load_some(added + part * width + j, count); };
        const Vec reset = sigmoid(input(0) + own(0)), keep = sigmoid(input(1) + own(1));
        const Vec fresh = tanh(fma(reset, own(2), input(2)));
        store_some(one.hidden(step) + j, fma(keep, load_some(last + j, count) - fresh, fresh), count);
      }
    }
  }
}

}  // namespace edgec
