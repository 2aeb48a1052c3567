// Memory that each thread keeps between calls: it grows to the largest call seen and stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgec {

// Arrays of so many floats, each on its own cache lines, valid until the same thread asks for the same Purpose.
template <typename Purpose, size_t kArrays>
std::array<float*, kArrays> scratch(const int64_t (&floats)[kArrays]) {
  constexpr int64_t kLine = 16;
  static thread_local std::vector<float> memory;
  int64_t total = kLine;
  for (int64_t wanted : floats) total += (wanted + kLine - 1) / kLine * kLine;
  if (memory.size() < static_cast<size_t>(total)) memory.resize(total);
  const auto misaligned = reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % kLine;
  float* next = memory.data() + (misaligned ? kLine - misaligned : 0);
  std::array<float*, kArrays> arrays;
  for (size_t i = 0; i < kArrays; i++) {
    arrays[i] = next;
    next += (floats[i] + kLine - 1) / kLine * kLine;
  }
  return arrays;
}

}  // namespace edgec
