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

}  // namespace

void drop_pages(const std::string& path) {
  const OpenFile file(path);
  if (file.descriptor >= 0) {
    fsync(file.descriptor);  // Dirty pages cannot be dropped.
    posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
  }
}

void fill_pages(const std::string& path) {
  const OpenFile file(path);
  std::vector<char> buffer(kBufferBytes);
  while (file.descriptor >= 0 && read(file.descriptor, buffer.data(), buffer.size()) > 0) {
  }
}

double resident_share(const std::string& path) {
  const OpenFile file(path);
  struct stat facts {};
  if (file.descriptor < 0 || fstat(file.descriptor, &facts) != 0 || facts.st_size == 0) {
    return -1;
  }
  const auto bytes = static_cast<size_t>(facts.st_size);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* view = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (view == MAP_FAILED) {
    return -1;
  }
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  const int status = mincore(view, bytes, resident.data());
  munmap(view, bytes);
  const auto count = std::count_if(resident.begin(), resident.end(), [](unsigned char flags) { return flags & 1; });
  return status != 0 ? -1 : static_cast<double>(count) / static_cast<double>(resident.size());
}

}  // namespace edgec::runner
