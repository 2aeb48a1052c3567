#include "adapter.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

namespace edgec {
namespace {

constexpr int64_t kLanes = LowRank::kLanes;
constexpr int kVectors = static_cast<int>(kLanes) / kWidth;
// Rows of `a` that read a token together, and columns of results that stay in registers.
constexpr int kRowsTogether = 4, kRunsTogether = 4;
// Columns of `b` that are read at a time while it is turned.
constexpr int64_t kColumns = 64;

thread_local const Adapter* in_force = nullptr;
thread_local NotedMatrices* noted = nullptr;

int64_t filled_up(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

template <int kCount>
void multiply_run(const float* a, int64_t stride, const float* x, Vec (&sums)[kCount][kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; v++) {
    const Vec values = load(x + v * kWidth);
#pragma GCC unroll 4
    for (int r = 0; r < kCount; r++) sums[r][v] = fma(load(a + r * stride + v * kWidth), values, sums[r][v]);
  }
}

float sum_of(const Vec (&parts)[kVectors]) {
  float lanes[kLanes];
  for (int v = 0; v < kVectors; v++) store(lanes + v * kWidth, parts[v]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; i++) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// out[r] = row r of a times x, for kCount rows.
template <int kCount>
void dot_products(const float* a, const LowRank& change, const float* x, float* out) {
  Vec sums[kCount][kVectors] = {};
  int64_t i = 0;
  for (; i + kLanes <= change.width; i += kLanes) multiply_run<kCount>(a + i, change.a_stride, x + i, sums);
  if (i < change.width) {
    float rest[kLanes] = {};
    std::memcpy(rest, x + i, static_cast<size_t>(change.width - i) * sizeof(float));
    multiply_run<kCount>(a + i, change.a_stride, rest, sums);
  }
  for (int r = 0; r < kCount; r++) out[r] = sum_of(sums[r]);
}

// The number at any address.
template <NumberFormat format>
float number(const char* at) {
  if constexpr (format == NumberFormat::kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  if constexpr (format == NumberFormat::kFloat16) return half_to_float(bits);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// to[i] = scale * number i from `data` on. A product with 1 changes no bit.
template <NumberFormat format>
void scaled(const char* data, int64_t count, float scale, float* to) {
  int64_t i = 0;
  if constexpr (format == NumberFormat::kFloat16) {
    const bool aligned = reinterpret_cast<uintptr_t>(data) % sizeof(uint16_t) == 0;
    const auto* halves = reinterpret_cast<const uint16_t*>(data);
    for (; aligned && i + kWidth <= count; i += kWidth) store(to + i, load_half(halves + i) * broadcast(scale));
  }
  for (; i < count; i++) to[i] = number<format>(data + i * bytes_of(format)) * scale;
}

// to[i] = scale * number `begin` + i.
void read_numbers(const Numbers& from, int64_t begin, int64_t count, float scale, float* to) {
  const char* data = static_cast<const char*>(from.data) + begin * bytes_of(from.format);
  switch (from.format) {
    case NumberFormat::kFloat32: return scaled<NumberFormat::kFloat32>(data, count, scale, to);
    case NumberFormat::kFloat16: return scaled<NumberFormat::kFloat16>(data, count, scale, to);
    case NumberFormat::kBfloat16: return scaled<NumberFormat::kBfloat16>(data, count, scale, to);
  }
}

// Rows of a square as columns: to[column * stride + row].
void turn(const float (&square)[kLanes][kColumns], int64_t columns, float* to, int64_t stride) {
  for (int64_t column = 0; column < columns; column += kWidth) {
    const int wide = static_cast<int>(std::min<int64_t>(kWidth, columns - column));
    for (int64_t row = 0; row < kLanes; row += kWidth) {
      transpose(&square[row][column], kColumns, to + column * stride + row, stride, wide);
    }
  }
}

// narrow [rank] = a x, of one token.
void narrow_token(const LowRank& change, const float* x, float* narrow) {
  int64_t r = 0;
  for (; r + kRowsTogether <= change.rank; r += kRowsTogether) {
    dot_products<kRowsTogether>(change.a.get() + r * change.a_stride, change, x, narrow + r);
  }
  for (; r < change.rank; r++) dot_products<1>(change.a.get() + r * change.a_stride, change, x, narrow + r);
}

// results[0 .. kRuns * kLanes - 1] += b's rows from `b` on times narrow.
template <int kRuns>
void widen_runs(const LowRank& change, const float* b, const float* narrow, float* results) {
  constexpr int kAcross = kRuns * kVectors;
  Vec sums[kAcross] = {};
  for (int64_t r = 0; r < change.rank; r++, b += change.b_stride) {
    const Vec factor = broadcast(narrow[r]);
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; v++) sums[v] = fma(factor, load(b + v * kWidth), sums[v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kAcross; v++) store(results + v * kWidth, load(results + v * kWidth) + sums[v]);
}

}  // namespace

LowRank::LowRank(int64_t rank, int64_t width, int64_t rows)
    : rank(rank),
      width(width),
      rows(rows),
      a_stride(filled_up(width)),
      b_stride(filled_up(rows)),
      // Not zeroed: fill() writes all of it.
      a(new float[static_cast<size_t>(rank * a_stride)]),
      b(new float[static_cast<size_t>(rank * b_stride)]) {}

void LowRank::fill(const Numbers& from_a, const Numbers& from_b, float scale) noexcept {
  for (int64_t r = 0; r < rank; r++) {
    float* to = a.get() + r * a_stride;
    read_numbers(from_a, r * width, width, 1.0f, to);
    std::fill(to + width, to + a_stride, 0.0f);
  }
  // Squares of rows and columns, which stay in the L1 cache while they are turned.
  float square[kLanes][kColumns] = {};
  for (int64_t first = 0; first < rows; first += kLanes) {
    const int64_t present = std::min(kLanes, rows - first);
    for (int64_t r = 0; r < rank; r += kColumns) {
      const int64_t columns = std::min(kColumns, rank - r);
      for (int64_t row = 0; row < present; row++) {
        read_numbers(from_b, (first + row) * rank + r, columns, scale, square[row]);
      }
      for (int64_t row = present; row < kLanes; row++) std::fill_n(square[row], columns, 0.0f);
      turn(square, columns, b.get() + r * b_stride + first, b_stride);
    }
  }
}

AdapterScope::AdapterScope(const Adapter* adapter) { in_force = adapter; }

AdapterScope::~AdapterScope() { in_force = nullptr; }

AddedProducts::AddedProducts(const std::vector<Product>& products, const float* x, int64_t tokens) {
  if (in_force == nullptr) return;
  static thread_local std::vector<std::vector<float>> memory;
  memory.resize(std::max(memory.size(), products.size()));
  for (size_t i = 0; i < products.size(); i++) {
    const auto found = in_force->find(products[i].key);
    added_.push_back({found == in_force->end() ? nullptr : &found->second, nullptr});
    if (added_.back().change == nullptr) continue;
    const LowRank& change = found->second;
    const auto floats = static_cast<size_t>(tokens * change.rank);
    if (memory[i].size() < floats) memory[i].resize(floats);
    float* narrow = memory[i].data();
    for_rows(tokens, change.rank * change.width, [&](int64_t token) {
      narrow_token(change, x + token * change.width, narrow + token * change.rank);
    });
    added_.back().narrow = narrow;
  }
}

void AddedProducts::add(size_t product, int64_t first_row, int64_t rows, int64_t first_token, int64_t token_count,
                        float* results, int64_t stride) const {
  if (added_.empty() || added_[product].change == nullptr) return;
  const LowRank& change = *added_[product].change;
  constexpr int64_t kTogether = kRunsTogether * kLanes;
  for (int64_t token = 0; token < token_count; token++) {
    const float* narrow = added_[product].narrow + (first_token + token) * change.rank;
    const float* b = change.b.get() + first_row;
    float* to = results + token * stride;
    int64_t row = 0;
    for (; row + kTogether <= rows; row += kTogether) widen_runs<kRunsTogether>(change, b + row, narrow, to + row);
    for (; row < rows; row += kLanes) widen_runs<1>(change, b + row, narrow, to + row);
  }
}

NotedMatricesScope::NotedMatricesScope(NotedMatrices& matrices) { noted = &matrices; }

NotedMatricesScope::~NotedMatricesScope() { noted = nullptr; }

void note_matrices(const Region& region) {
  for (const Step& step : region.steps) {
    const Group* group = std::get_if<Group>(&step);
    for (size_t i = 0; noted != nullptr && group != nullptr && i < group->products.size(); i++) {
      const Product& product = group->products[i];
      noted->try_emplace(product.key, NotedMatrix{product.matrix, noted->size()});
    }
  }
}

}  // namespace edgec
