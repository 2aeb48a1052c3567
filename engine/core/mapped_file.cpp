#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "failure.h"

namespace edgec::engine {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  const bool readable = file >= 0 && fstat(file, &status) == 0 && status.st_size > 0;
  bytes_ = readable ? static_cast<size_t>(status.st_size) : 0;
  void* pages = readable ? mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  const int cause = errno;
  if (file >= 0) {
    close(file);
  }
  if (pages == MAP_FAILED) {
    throw Failure(EDGEC_REFUSED, "the artifact cannot be read: " + path + ": " + std::strerror(cause));
  }
  data_ = static_cast<const char*>(pages);
}

MappedFile::~MappedFile() {
  munmap(const_cast<char*>(data_), bytes_);
}

void MappedFile::forget() const {
  (void)madvise(const_cast<char*>(data_), bytes_, MADV_DONTNEED);
}

std::optional<int64_t> MappedFile::offset_of(const uint8_t* address) const {
  const auto begin = reinterpret_cast<uintptr_t>(data_), wanted = reinterpret_cast<uintptr_t>(address);
  if (wanted < begin || wanted - begin >= bytes_) return std::nullopt;
  return static_cast<int64_t>(wanted - begin);
}

Result<FreeableBuffer> MappedFile::load(size_t offset, size_t size, const SegmentInfo&) const {
  if (!holds(offset, size)) {
    return Error::InvalidArgument;
  }
  return FreeableBuffer(data_ + offset, size, nullptr);
}

Error MappedFile::load_into(size_t offset, size_t size, const SegmentInfo&, void* buffer) const {
  if (!holds(offset, size)) {
    return Error::InvalidArgument;
  }
  std::memcpy(buffer, data_ + offset, size);
  return Error::Ok;
}

}  // namespace edgec::engine
