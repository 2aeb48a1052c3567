// The file that holds a model's packed weights, mapped by every process that runs the model; its locking, naming and
// marks serve the matrices that edgec itself lays out anew too (laid_out_file.h).
//
// XNNPACK's backend packs into a given file (option "packed_cache_path") and maps it when the file is complete. It
// locks the file for as long as it lives, rewrites in place what it cannot read, and grows it by mapped writes, which
// crash on a full disk. This class avoids all three: loads take turns on a lock file, packing goes to a temporary file
// that is renamed when complete, and the free space is checked first.
#pragma once

#include <cstdint>
#include <string>

namespace edgec::engine {

// The path DIGEST-KEY.packed in `folder`, where KEY is a hash of this CPU and this ExecuTorch.
std::string packed_path(const std::string& folder, const std::string& digest);

// One load's turn on a packed file. While it exists, no other process loads from or writes this file.
class PackedFile {
 public:
  // Waits for its turn. In a folder that cannot be written, the file is not `usable`.
  explicit PackedFile(std::string path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  // Whether the lock is held, so that the backend can use the path.
  bool usable() const { return lock_ >= 0; }
  // Whether the file is the one that an earlier load completed, untouched since.
  bool intact() const;
  // Whether the disk has room for `bytes`.
  bool has_room(int64_t bytes) const;

  const std::string& path() const { return path_; }
  // The temporary file to pack into: in the same folder, so that a rename suffices.
  const std::string& aside() const { return aside_; }
  // Rename the temporary file to the packed file if it is complete, else delete it; whether it was renamed.
  bool keep_aside();
  void drop_aside() const;
  // Release the locks that this process's backend holds on the file, which is only read from now on.
  void unlock_backend() const;
  // Enter the file's pages into this process's page tables at once, where the kernel can. One by one, on first use,
  // they would cost the first token more than everything else (a 160 MB file: about 40 ms).
  void fault_in() const;
  int64_t bytes() const;

 private:
  std::string stamp() const;

  std::string path_;
  std::string aside_;
  int lock_ = -1;
};

}  // namespace edgec::engine
