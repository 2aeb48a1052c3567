// Memory that costs nothing until it is touched: zeroed pages straight from the kernel.
#pragma once

#include <executorch/runtime/core/span.h>

#include <cstddef>
#include <cstdint>

namespace edgec::engine {

// `bytes` of zeroed, page-aligned memory. A KV cache in it occupies RAM only for the positions that were written.
class Arena {
 public:
  explicit Arena(size_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena& operator=(Arena&&) = delete;

  // Zero everything and give the pages back.
  void clear();
  executorch::runtime::Span<uint8_t> span() const { return {data_, bytes_}; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_;
};

}  // namespace edgec::engine
