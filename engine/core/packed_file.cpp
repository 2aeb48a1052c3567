#include "packed_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if defined(__linux__) && defined(__aarch64__)
#include <elf.h>
#include <sys/auxv.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <executorch/runtime/backend/options.h>

#include "kernels/apple_system.h"

#ifndef EDGEC_EXECUTORCH_VERSION
#error "the build states ExecuTorch's version: packed weights of another version are not read"
#endif
// Given without quotes, which build systems escape each in their own way.
#define EDGEC_TEXT(token) #token
#define EDGEC_TEXT_OF(macro) EDGEC_TEXT(macro)

namespace edgec::engine {
namespace {

constexpr size_t kDigestLetters = 32;
constexpr uint64_t kFnvBasis = 14695981039346656037ull;
constexpr uint64_t kFnvPrime = 1099511628211ull;
#if defined(__APPLE__)
constexpr const char* kOwnDescriptors = "/dev/fd";
#else
constexpr const char* kOwnDescriptors = "/proc/self/fd";
#endif

// The kernels that XNNPACK chooses, and with them the packing, depend on the instruction sets and the
// microarchitecture.
std::string cpu_description() {
#if defined(__APPLE__)
  // The chip's name settles its instructions: M1, M2, ...
  return system_text("machdep.cpu.brand_string");
#else
  std::ifstream file("/proc/cpuinfo");
  std::string line, description;
  while (std::getline(file, line) && !line.empty()) {
    for (const char* field : {"model name", "flags", "Features", "CPU implementer", "CPU part"}) {
      description += line.rfind(field, 0) == 0 ? line : "";
    }
  }
#if defined(__linux__) && defined(__aarch64__)
  // The features that XNNPACK sees, which are fewer than the CPU has (arm_features.cpp).
  description += "|" + std::to_string(getauxval(AT_HWCAP)) + "|" + std::to_string(getauxval(AT_HWCAP2));
#endif
  return description;
#endif
}

uint64_t fnv(const std::string& text) {
  uint64_t hash = kFnvBasis;
  for (const unsigned char letter : text) {
    hash = (hash ^ letter) * kFnvPrime;
  }
  return hash;
}

int locked(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0 && flock(file, LOCK_EX) != 0) {
    close(file);
    return -1;
  }
  return file;
}

int64_t size_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_size) : -1;
}

// XNNPACK's backend and laid_out_file.h end a complete file with a mark, which a file cut short by a full disk lacks.
bool complete(const std::string& path) {
  constexpr int kVersionAndMark = 8;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  char end[kVersionAndMark] = {};
  if (!file || file.tellg() < kVersionAndMark) {
    return false;
  }
  file.seekg(-kVersionAndMark, std::ios::end).read(end, kVersionAndMark);
  const auto ends_with = [&](const char* mark) { return std::memcmp(end, mark, 4) == 0; };
  return ends_with("XPWC") || ends_with("CWPX") || ends_with("EDGC");
}

}  // namespace

std::string packed_path(const std::string& folder, const std::string& digest) {
  char key[17];
  const uint64_t hash = fnv(cpu_description() + "|" EDGEC_TEXT_OF(EDGEC_EXECUTORCH_VERSION));
  std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(hash));
  return folder + "/" + digest.substr(0, kDigestLetters) + "-" + key + ".packed";
}

PackedFile::PackedFile(std::string path)
    : path_(std::move(path)), aside_(path_ + "." + std::to_string(getpid())) {
  if (!path_.empty() && aside_.size() < executorch::runtime::kMaxOptionValueLength) {
    lock_ = locked(path_ + ".lock");
  }
}

PackedFile::~PackedFile() {
  if (lock_ >= 0) {
    close(lock_);
  }
}

// Size, time and inode, which show a copy, a change or a truncation without reading hundreds of megabytes.
std::string PackedFile::stamp() const {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) {
    return "";
  }
  std::ostringstream text;
#if defined(__APPLE__)
  const auto& changed = status.st_mtimespec;
#else
  const auto& changed = status.st_mtim;
#endif
  text << status.st_size << " " << changed.tv_sec << "." << changed.tv_nsec << " " << status.st_ino << "\n";
  return text.str();
}

bool PackedFile::intact() const {
  const std::string now = stamp();
  std::string then(now.size(), '\0');
  const ssize_t length = now.empty() ? 0 : pread(lock_, then.data(), then.size(), 0);
  return length > 0 && then == now && complete(path_);
}

bool PackedFile::has_room(int64_t bytes) const {
  struct statvfs disk {};
  const std::string folder = path_.substr(0, path_.find_last_of('/') + 1);
  if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) {
    return false;
  }
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize) > bytes;
}

bool PackedFile::keep_aside() {
  if (!complete(aside_) || rename(aside_.c_str(), path_.c_str()) != 0) {
    drop_aside();
    return false;
  }
  const std::string text = stamp();
  const bool written = ftruncate(lock_, 0) == 0 && pwrite(lock_, text.data(), text.size(), 0) == ssize_t(text.size());
  return written && fsync(lock_) == 0;
}

void PackedFile::drop_aside() const {
  unlink(aside_.c_str());
}

// A lock belongs to an open file description, so the descriptors of this process that lead to the file are looked up.
void PackedFile::unlock_backend() const {
  struct stat wanted {};
  DIR* folder = stat(path_.c_str(), &wanted) == 0 ? opendir(kOwnDescriptors) : nullptr;
  if (folder == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(folder)) {
    struct stat opened {};
    const int descriptor = std::atoi(entry->d_name);
    if (descriptor > 2 && fstat(descriptor, &opened) == 0 && opened.st_dev == wanted.st_dev &&
        opened.st_ino == wanted.st_ino) {
      flock(descriptor, LOCK_UN);
    }
  }
  closedir(folder);
}

void PackedFile::fault_in() const {
#if defined(MADV_POPULATE_READ)
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    const bool ours = line.size() > path_.size() && line.compare(line.size() - path_.size(), path_.size(), path_) == 0;
    if (ours && std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) {
      (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
    }
  }
#endif
}

int64_t PackedFile::bytes() const {
  return size_of(path_);
}

}  // namespace edgec::engine
