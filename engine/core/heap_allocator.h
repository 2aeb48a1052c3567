// Memory for a loaded method's own tables, from the heap.
#pragma once

#include <executorch/runtime/core/memory_allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace edgec::engine {

// Memory that lives as long as the allocator; ExecuTorch's own (extension/memory_allocator) is not among the headers that
// its package for Apple's systems exports.
class HeapAllocator final : public executorch::runtime::MemoryAllocator {
 public:
  HeapAllocator() : MemoryAllocator(0, nullptr) {}

  void* allocate(size_t bytes, size_t alignment = kDefaultAlignment) override {
    const bool power = alignment > 0 && (alignment & (alignment - 1)) == 0;
    if (!power || bytes > SIZE_MAX - alignment) return nullptr;
    // Not zeroed, as ExecuTorch's own; the rest after the aligned start still holds `bytes`.
    uint8_t* start = new (std::nothrow) uint8_t[bytes + alignment];
    if (start == nullptr) return nullptr;
    blocks_.emplace_back(start);
    const auto address = reinterpret_cast<uintptr_t>(start);
    return start + ((alignment - address % alignment) % alignment);
  }

  void reset() override { blocks_.clear(); }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
};

}  // namespace edgec::engine
