// The engine's own sources as they are compiled for a Mac, over stand-ins of what macOS would answer:
//     apple_entry CLASS NAME=NUMBER ...
// prints the kernels, the pool's first size, and the classes in which a step's threads work whose caller has CLASS.
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <executorch/runtime/core/function_ref.h>

// Only from here on: the headers of this system are for this system.
#undef __linux__
#undef __x86_64__
#undef __aarch64__
#define __APPLE__ 1
#define __aarch64__ 1
#include "core/shared_cores.cpp"
#include "core/threads.cpp"
#include "kernels/linear/choose.cpp"

namespace {

std::map<std::string, int> known;
thread_local qos_class_t own_class = QOS_CLASS_UNSPECIFIED;
int raised = 0;

}  // namespace

extern "C" int sysctlbyname(const char* name, void* value, size_t* bytes, void*, size_t) {
  const auto found = known.find(name);
  if (found == known.end() || *bytes < sizeof(int)) return -1;
  *bytes = sizeof(int);
  std::memcpy(value, &found->second, sizeof(int));
  return 0;
}

extern "C" qos_class_t qos_class_self() {
  return own_class;
}

extern "C" int pthread_set_qos_class_self_np(qos_class_t wanted, int) {
  own_class = wanted;
  raised += 1;
  return 0;
}

namespace executorch::extension {

// Two threads, the caller's among them, as in ExecuTorch's pool; the other lives for one call.
bool parallel_for(int64_t begin, int64_t end, int64_t, runtime::FunctionRef<void(int64_t, int64_t)> work) {
  std::thread([&] { work(begin, begin + 1); }).join();
  work(begin + 1, end);
  return true;
}

namespace threadpool {

size_t size = 10;

size_t ThreadPool::get_thread_count() const {
  return size;
}
bool ThreadPool::_unsafe_reset_threadpool(uint32_t threads) {
  size = threads;
  return true;
}
ThreadPool* get_threadpool() {
  static ThreadPool pool;
  return &pool;
}
::pthreadpool* get_pthreadpool() {
  return nullptr;
}

}  // namespace threadpool
}  // namespace executorch::extension

namespace edgec::linear {

Multiply* const nothing = nullptr;
extern const Kernel kDotprod = {"dotprod", Layout::kRows8, false, nullptr, nothing, nothing};
extern const Kernel kI8mm = {"i8mm", Layout::kRows8, false, nullptr, nothing, nothing};
void quantize_plainly(const float*, int64_t, int64_t, int64_t, const Tokens&) {}
void multiply_plainly(const Matrix&, int64_t, int64_t, const Tokens&, int64_t, int64_t, float*, int64_t) {}
void multiply_floats_plainly(const Matrix&, int64_t, int64_t, const Tokens&, int64_t, int64_t, float*, int64_t) {}

}  // namespace edgec::linear

int main(int count, char** words) {
  own_class = static_cast<qos_class_t>(std::strtoul(words[1], nullptr, 16));
  for (int i = 2; i < count; i++) {
    const std::string word = words[i];
    known[word.substr(0, word.find('='))] = std::stoi(word.substr(word.find('=') + 1));
  }
  const edgec::linear::Kernels kernels = edgec::linear::available_kernels();
  for (int i = 0; i < kernels.count; i++) std::printf("%s%s", i == 0 ? "" : " ", kernels.kernels[i]->name);
  const int first = edgec::engine::pool_threads(0);
  const int asked = edgec::engine::pool_threads(3);
  std::printf("\n%d %d\n", first, asked);
  std::vector<unsigned> classes(2);
  edgec::for_units(2, true, [&](int64_t i) { classes[i] = own_class; });
  edgec::for_units(2, false, [&](int64_t) {});
  std::printf("%x %x %d\n", classes[0], classes[1], raised);
  return 0;
}
