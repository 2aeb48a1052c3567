#include "affinity.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__linux__)
#include <sched.h>
#endif

namespace edgec::runner {

#if defined(__linux__)

void stay_on(const std::vector<int64_t>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int64_t cpu : cpus) {
    if (cpu >= CPU_SETSIZE) {
      throw std::runtime_error("this machine has no CPU " + std::to_string(cpu));
    }
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  if (!cpus.empty() && sched_setaffinity(0, sizeof set, &set) != 0) {
    throw std::runtime_error(std::string("--cpus is refused by the system: ") + std::strerror(errno));
  }
}

#else

void stay_on(const std::vector<int64_t>& cpus) {
  if (!cpus.empty()) {
    throw std::runtime_error("--cpus needs Linux or Android");
  }
}

#endif

}  // namespace edgec::runner
