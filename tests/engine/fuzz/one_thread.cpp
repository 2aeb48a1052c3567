// In the place of ExecuTorch's thread pool, whose library no sanitizer looks into: a process without threads.
#include "kernels/parallel.h"

namespace executorch::extension {

bool parallel_for(int64_t begin, int64_t end, int64_t, runtime::FunctionRef<void(int64_t, int64_t)> work) {
  work(begin, end);
  return true;
}

namespace threadpool {
size_t ThreadPool::get_thread_count() const {
  return 1;
}
ThreadPool* get_threadpool() {
  return nullptr;
}
}  // namespace threadpool

}  // namespace executorch::extension
