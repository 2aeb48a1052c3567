#include "read_ahead.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace edgec::engine {
namespace {

// What is read in one call, so that whoever maps memory in between waits no longer.
constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
// Small constants lie between matrices.
constexpr ptrdiff_t kGap = 64 << 10;

#if defined(MADV_POPULATE_READ)
void read_in(const std::vector<Run>& runs, const std::atomic<bool>& stopped) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const Run& run : runs) {
    const auto first = reinterpret_cast<uintptr_t>(run.data);
    const uintptr_t begin = first / page * page, end = first + static_cast<uintptr_t>(run.bytes);
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    for (uintptr_t at = begin; at < end; at = at / kLargePage * kLargePage + kLargePage) {
      const uintptr_t stop = std::min(end, at / kLargePage * kLargePage + kLargePage);
      if (stopped || madvise(reinterpret_cast<void*>(at), stop - at, MADV_POPULATE_READ) != 0) return;
    }
  }
}
#else
void read_in(const std::vector<Run>&, const std::atomic<bool>&) {}
#endif

}  // namespace

std::vector<Run> joined(const std::vector<Run>& runs) {
  std::vector<Run> together;
  for (const Run& run : runs) {
    if (run.bytes == 0) continue;
    const ptrdiff_t gap = together.empty() ? -1 : run.data - (together.back().data + together.back().bytes);
    if (gap >= 0 && gap <= kGap) {
      together.back().bytes += gap + run.bytes;
    } else {
      together.push_back(run);
    }
  }
  return together;
}

ReadAhead::~ReadAhead() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::start(std::vector<Run> runs) {
  if (runs.empty()) return;
  try {
    thread_ = std::thread([this, runs = std::move(runs)] { read_in(runs, stopped_); });
  } catch (const std::system_error&) {
  }
}

}  // namespace edgec::engine
