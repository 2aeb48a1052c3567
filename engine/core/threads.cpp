#include "threads.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "kernels/parallel.h"
#include "shared_cores.h"

struct pthreadpool;

namespace executorch::extension::threadpool {
pthreadpool* get_pthreadpool();
}  // namespace executorch::extension::threadpool

namespace edgec::engine {
namespace {

std::mutex gate;
std::condition_variable gate_moved;
int users = 0;
int waiting_to_change = 0;
uint64_t changes = 0;

bool chosen(int size) {
  return size >= 1 && size <= kMostThreads;
}

}  // namespace

PoolInUse::PoolInUse() {
  std::unique_lock<std::mutex> lock(gate);
  gate_moved.wait(lock, [] { return waiting_to_change == 0; });
  users += 1;
}

PoolInUse::~PoolInUse() {
  const std::lock_guard<std::mutex> lock(gate);
  users -= 1;
  gate_moved.notify_all();
}

int pool_threads(int wanted) {
  std::unique_lock<std::mutex> lock(gate);
  auto* pool = executorch::extension::threadpool::get_threadpool();
  if (pool == nullptr) {
    return 1;
  }
  static int sized = shared_cores();
  const int size = chosen(wanted) ? wanted : std::exchange(sized, 0);
  sized = 0;
  if (chosen(size) && static_cast<size_t>(size) != pool->get_thread_count()) {
    waiting_to_change += 1;
    gate_moved.wait(lock, [] { return users == 0; });
    pool->_unsafe_reset_threadpool(static_cast<uint32_t>(size));
    changes += 1;
    waiting_to_change -= 1;
    gate_moved.notify_all();
  }
  return static_cast<int>(pool->get_thread_count());
}

PoolIdentity pool_identity() {
  const std::lock_guard<std::mutex> lock(gate);
  return {executorch::extension::threadpool::get_pthreadpool(), changes};
}

}  // namespace edgec::engine
