// The thread pool that XNNPACK and the kernels share, one per process.
#pragma once

#include <cstdint>

namespace edgec::engine {

// The most threads that a pool may have: asking for more is a mistake.
constexpr int kMostThreads = 1024;

// Held while methods are loaded or executed, so that the pool stays as it is. Not to be nested, since a thread that
// waits to change the pool comes first.
class PoolInUse {
 public:
  PoolInUse();
  ~PoolInUse();
  PoolInUse(const PoolInUse&) = delete;
  PoolInUse& operator=(const PoolInUse&) = delete;
};

// Set the pool's size (outside 1..kMostThreads: leave it) as soon as nobody uses it; returns the size in force.
int pool_threads(int wanted);

// The identity of a pool: XNNPACK keeps the pointer in every loaded method, and a new size makes a new pool, possibly
// at the address of an earlier one.
struct PoolIdentity {
  const void* pool;
  uint64_t changes;

  bool operator==(const PoolIdentity& other) const { return pool == other.pool && changes == other.changes; }
};

// Only while the pool is in use.
PoolIdentity pool_identity();

}  // namespace edgec::engine
