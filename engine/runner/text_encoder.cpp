#include "text_encoder.h"

#include <stdexcept>

namespace edgec::runner {
namespace {

constexpr int32_t kInt64 = 4, kFloat32 = 6;

EdgecTensor row_of(const std::vector<int64_t>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  return {const_cast<int64_t*>(numbers.data()), kInt64, 2, {1, count}};
}

}  // namespace

std::vector<float> TextEncoder::embed(const std::vector<int64_t>& tokens) {
  if (tokens.empty()) {
    throw std::runtime_error("a text has no tokens");
  }
  const std::vector<int64_t> mask(tokens.size(), 1);
  const EdgecTensor vector = forward_({row_of(tokens), row_of(mask)}).front();
  if (vector.dtype != kFloat32 || vector.rank != 2 || vector.sizes[0] != 1 || vector.sizes[1] < 1) {
    throw std::runtime_error("the method does not make one vector of a text: its first output is not float32 [1, D]");
  }
  const auto* numbers = static_cast<const float*>(vector.data);
  return {numbers, numbers + vector.sizes[1]};
}

}  // namespace edgec::runner
