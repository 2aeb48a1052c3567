// An artifact as one read-only mapping.
#pragma once

#include <executorch/runtime/core/data_loader.h>

#include <cstdint>
#include <optional>
#include <string>

namespace edgec::engine {

// A data loader whose buffers stay valid until it is destroyed. ExecuTorch's own unmaps what is freed, and XNNPACK's
// weight cache in 1.5.1 frees constants that operators still read (pytorch/executorch#22779).
class MappedFile final : public executorch::runtime::DataLoader {
 public:
  // Throws Failure when the file cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile() override;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  executorch::runtime::Result<executorch::runtime::FreeableBuffer> load(
      size_t offset, size_t size, const SegmentInfo& segment) const override;
  executorch::runtime::Error load_into(
      size_t offset, size_t size, const SegmentInfo& segment, void* buffer) const override;
  executorch::runtime::Result<size_t> size() const override { return bytes_; }
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(data_); }
  // The offset of an address in the file, or nothing where it lies elsewhere.
  std::optional<int64_t> offset_of(const uint8_t* address) const;
  // Give the pages back to the kernel; those still needed (constants read in place) are read again on access.
  void forget() const;

 private:
  bool holds(size_t offset, size_t size) const { return offset <= bytes_ && size <= bytes_ - offset; }

  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace edgec::engine
