#include "embedding.h"

#include <cstring>

#include "parallel.h"

namespace edgec {
namespace {

float from_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

void read_bytes(const Table& table, int64_t row, float* __restrict out) {
  const auto* bytes = static_cast<const int8_t*>(table.weights) + row * table.width;
  const float scale = static_cast<const float*>(table.scales)[row];
  for (int64_t i = 0; i < table.width; i++) out[i] = static_cast<float>(bytes[i]) * scale;
}

void read_nibbles(const Table& table, int64_t row, float* __restrict out) {
  const int64_t groups = table.width / table.group;
  const auto* pairs = static_cast<const uint8_t*>(table.weights) + row * ((table.width + 1) / 2);
  const auto* scales = static_cast<const uint16_t*>(table.scales) + row * groups;
  for (int64_t i = 0; i < table.width; i++) {
    const int nibble = i % 2 ? pairs[i / 2] >> 4 : pairs[i / 2] & 15;
    out[i] = static_cast<float>(nibble - 8) * from_bfloat16(scales[i / table.group]);
  }
}

}  // namespace

void gather(const Table& table, const int64_t* tokens, int64_t count, float* out) {
  for_rows(count, table.width, [&](int64_t i) {
    float* to = out + i * table.width;
    if (table.bits == 8) return read_bytes(table, tokens[i], to);
    if (table.bits == 4) return read_nibbles(table, tokens[i], to);
    std::memcpy(to, static_cast<const float*>(table.weights) + tokens[i] * table.width, table.width * sizeof(float));
  });
}

void gather(const linear::Matrix& matrix, const int64_t* tokens, int64_t count, float* out) {
  for_rows(count, matrix.width, [&](int64_t i) { linear::read_row(matrix, tokens[i], out + i * matrix.width); });
}

}  // namespace edgec
