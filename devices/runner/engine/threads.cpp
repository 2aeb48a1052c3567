#include "threads.h"

#include <cstddef>
#include <cstdint>

struct pthreadpool;

// ExecuTorch's package ships the library of this class but not its header (extension/threadpool/threadpool.h).
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(uint32_t num_threads);
};
ThreadPool* get_threadpool();
pthreadpool* get_pthreadpool();
}  // namespace executorch::extension::threadpool

namespace edgec::engine {

int pool_threads(int wanted) {
  auto* pool = executorch::extension::threadpool::get_threadpool();
  if (pool == nullptr) {
    return 1;
  }
  if (wanted >= 1 && static_cast<size_t>(wanted) != pool->get_thread_count()) {
    pool->_unsafe_reset_threadpool(static_cast<uint32_t>(wanted));
  }
  return static_cast<int>(pool->get_thread_count());
}

const void* pool_identity() {
  return executorch::extension::threadpool::get_pthreadpool();
}

}  // namespace edgec::engine
