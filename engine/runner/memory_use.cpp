#include "memory_use.h"

#if defined(__APPLE__)
#include <mach/mach.h>
#else
#include <fstream>
#include <string>
#endif

namespace edgec::runner {

#if defined(__APPLE__)

namespace {

task_vm_info_data_t own_memory() {
  task_vm_info_data_t facts{};
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  if (task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&facts), &count) != KERN_SUCCESS) {
    facts.resident_size_peak = facts.resident_size = facts.internal = static_cast<mach_vm_size_t>(-1);
  }
  return facts;
}

}  // namespace

int64_t peak_rss_bytes() {
  return static_cast<int64_t>(own_memory().resident_size_peak);
}

int64_t rss_bytes() {
  return static_cast<int64_t>(own_memory().resident_size);
}

int64_t anonymous_bytes() {
  return static_cast<int64_t>(own_memory().internal);
}

#else

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

#endif

}  // namespace edgec::runner
