// What the kernel is told about pages of a mapped file. Advice may be refused; nothing depends on it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace edgec {

// Advises the pages that lie wholly (`within`) or partly inside of so many bytes; says whether the kernel took it.
inline bool advise(const void* data, int64_t bytes, int advice, bool within) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(data), end = first + static_cast<uintptr_t>(bytes);
  const uintptr_t begin = (within ? first + page - 1 : first) / page * page;
  const uintptr_t stop = (within ? end : end + page - 1) / page * page;
  return begin >= stop || madvise(reinterpret_cast<void*>(begin), stop - begin, advice) == 0;
}

// Reading one place says nothing about its neighbours: nothing is read ahead.
inline void advise_random(const void* data, int64_t bytes) {
  advise(data, bytes, MADV_RANDOM, true);
}

// All of it will be read: in large pieces, where it is not in memory yet.
inline void advise_needed(const void* data, int64_t bytes) {
  advise(data, bytes, MADV_WILLNEED, false);
}

}  // namespace edgec
