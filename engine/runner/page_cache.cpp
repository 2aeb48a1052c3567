#include "page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace edgec::runner {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const int descriptor;
};

#if defined(__APPLE__)
using PageState = char;
#else
using PageState = unsigned char;
#endif

// A whole file in memory; `data` is null where it cannot be mapped.
class MappedFile {
 public:
  explicit MappedFile(const OpenFile& file) {
    struct stat facts {};
    if (file.descriptor >= 0 && fstat(file.descriptor, &facts) == 0 && facts.st_size > 0) {
      bytes = static_cast<size_t>(facts.st_size);
      void* view = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor, 0);
      data = view == MAP_FAILED ? nullptr : view;
    }
  }
  ~MappedFile() {
    if (data != nullptr) {
      munmap(data, bytes);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  void* data = nullptr;
  size_t bytes = 0;
};

}  // namespace

void drop_pages(const std::string& path) {
  const OpenFile file(path);
  if (file.descriptor < 0) {
    return;
  }
  fsync(file.descriptor);  // Dirty pages cannot be dropped.
#if defined(__APPLE__)
  const MappedFile mapped(file);
  if (mapped.data != nullptr) {
    msync(mapped.data, mapped.bytes, MS_INVALIDATE);
  }
#else
  posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
#endif
}

void fill_pages(const std::string& path) {
  const OpenFile file(path);
  std::vector<char> buffer(kBufferBytes);
  while (file.descriptor >= 0 && read(file.descriptor, buffer.data(), buffer.size()) > 0) {
  }
}

double resident_share(const std::string& path) {
  const OpenFile file(path);
  const MappedFile mapped(file);
  if (mapped.data == nullptr) {
    return -1;
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<PageState> resident((mapped.bytes + page - 1) / page);
  if (mincore(mapped.data, mapped.bytes, resident.data()) != 0) {
    return -1;
  }
  const auto count = std::count_if(resident.begin(), resident.end(), [](PageState flags) { return (flags & 1) != 0; });
  return static_cast<double>(count) / static_cast<double>(resident.size());
}

}  // namespace edgec::runner
