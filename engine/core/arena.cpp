#include "arena.h"

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <utility>

#include "failure.h"

namespace edgec::engine {
namespace {

uint8_t* mapped(size_t bytes, int extra_flags, void* at) {
  void* pages = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
  if (pages == MAP_FAILED) {
    throw Failure(EDGEC_FAILED, "no memory for " + std::to_string(bytes) + " bytes of state or activations");
  }
  return static_cast<uint8_t*>(pages);
}

}  // namespace

Arena::Arena(size_t bytes) : bytes_(bytes) {
  if (bytes > 0) {
    data_ = mapped(bytes, 0, nullptr);
  }
}

Arena::Arena(Arena&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Arena::~Arena() {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
}

// Mapping fresh pages over the old ones keeps the address and works the same on Linux, Android and Darwin.
void Arena::clear() {
  if (data_ != nullptr) {
    mapped(bytes_, MAP_FIXED, data_);
  }
}

}  // namespace edgec::engine
