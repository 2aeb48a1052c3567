#include "read_ahead.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "kernels/page_advice.h"

namespace edgec::engine {
namespace {

// Small constants lie between matrices.
constexpr ptrdiff_t kGap = 64 << 10;

#if defined(MADV_POPULATE_READ)
// What is read in one call, so that whoever maps memory in between waits no longer.
constexpr int64_t kPiece = 2 << 20;

void read_in(const std::vector<Run>& runs, const std::atomic<bool>& stopped) {
  for (const Run& run : runs) {
    advise(run.data, run.bytes, MADV_HUGEPAGE, false);
    for (int64_t done = 0; done < run.bytes; done += kPiece) {
      const int64_t bytes = std::min(kPiece, run.bytes - done);
      if (stopped || !advise(run.data + done, bytes, MADV_POPULATE_READ, false)) return;
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
