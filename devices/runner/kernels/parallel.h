// Sharing work among ExecuTorch's threads, which XNNPACK uses, too.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include <cstdint>

namespace edgec {

inline int64_t threads() {
  return executorch::extension::get_thread_count();
}

// Calls unit(i) for i in 0..units-1, on all threads where the work is worth waking them.
template <typename Unit>
void for_units(int64_t units, bool worth_waking, const Unit& unit) {
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) unit(i);
  };
  if (units > 1 && worth_waking && threads() > 1) {
    executorch::extension::parallel_for(0, units, 1, range);
  } else {
    range(0, units);
  }
}

// Floats that one thread reads and writes in 15 to 30 us, about the cost of waking a second one (see attention.cpp).
inline constexpr int64_t kFloatsWorthWaking = 1 << 16;

// Calls use(i) for i in 0..count-1, each of which touches `floats` floats once; threads take neighbouring ones.
template <typename Use>
void for_rows(int64_t count, int64_t floats, const Use& use) {
  const bool worth_waking = count * floats >= kFloatsWorthWaking;
  const int64_t parts = worth_waking ? threads() : 1;
  for_units(parts, worth_waking, [&](int64_t part) {
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; i++) use(i);
  });
}

}  // namespace edgec
