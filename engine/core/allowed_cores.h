// The cores that this thread may run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace edgec::engine {

// Their numbers in rising order; none where the system does not tell.
inline std::vector<int64_t> allowed_cores() {
  std::vector<int64_t> cores;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int64_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
#endif
  return cores;
}

}  // namespace edgec::engine
