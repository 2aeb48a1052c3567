// Sharing work among ExecuTorch's threads, which XNNPACK uses, too.
#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <cstddef>
#include <cstdint>

#include "thread_class.h"

// ExecuTorch's packages ship the library of these functions; neither ships extension/threadpool/threadpool.h, that for
// Apple's systems not even runtime/kernel/thread_parallel_interface.h.
namespace executorch::extension {
bool parallel_for(int64_t begin, int64_t end, int64_t grain, runtime::FunctionRef<void(int64_t, int64_t)> work);
namespace threadpool {
class ThreadPool {
 public:
  size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(uint32_t threads);
};
ThreadPool* get_threadpool();
}  // namespace threadpool
}  // namespace executorch::extension

namespace edgec {

inline int64_t threads() {
  const auto* pool = executorch::extension::threadpool::get_threadpool();
  return pool == nullptr ? 1 : static_cast<int64_t>(pool->get_thread_count());
}

// Calls unit(i) for i in 0..units-1, on all threads where the work is worth waking them.
template <typename Unit>
void for_units(int64_t units, bool worth_waking, const Unit& unit) {
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) unit(i);
  };
  if (units > 1 && worth_waking && threads() > 1) {
    const ThreadClass callers;
    const auto shared = [&](int64_t begin, int64_t end) {
      callers.take_over();
      range(begin, end);
    };
    executorch::extension::parallel_for(0, units, 1, shared);
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
