#include "memory_use.h"

#include <fstream>
#include <string>

namespace edgec::runner {
namespace {

constexpr int64_t kKib = 1024;

int64_t field(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == name && file >> kib) {
      return kib * kKib;
    }
  }
  return -1;
}

}  // namespace

int64_t peak_rss_bytes() {
  return field("/proc/self/status", "VmHWM:");
}

int64_t rss_bytes() {
  return field("/proc/self/status", "VmRSS:");
}

int64_t anonymous_bytes() {
  return field("/proc/self/smaps_rollup", "Anonymous:");
}

}  // namespace edgec::runner
