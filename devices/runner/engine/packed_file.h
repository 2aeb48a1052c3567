// The file that holds a model's packed weights, mapped by every process that runs the model.
//
// XNNPACK's backend packs into a file it is told of (option "packed_cache_path") and maps it when the file is complete.
// It locks the file for as long as it lives, rewrites in place what it cannot read, and grows it by mapped writes that
// a full disk turns into a crash. This class keeps all three away: loads take turns on a lock file, packing goes to a
// file aside that is renamed when complete, and the room is asked for first.
#pragma once

#include <cstdint>
#include <string>

namespace edgec::engine {

// DIGEST-KEY.packed in `folder`, where KEY stands for this CPU and this ExecuTorch.
std::string packed_path(const std::string& folder, const std::string& digest);

// One load's turn on a packed file. While it exists, no other process loads from or writes this file.
class PackedFile {
 public:
  // Waits for its turn. A folder that cannot be written gives a file that is not `usable`.
  explicit PackedFile(std::string path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  // The lock is held and the backend can be told of the path.
  bool usable() const { return lock_ >= 0; }
  // The file is the one that a former load completed, untouched since.
  bool intact() const;
  // The disk has room for `bytes`.
  bool has_room(int64_t bytes) const;

  const std::string& path() const { return path_; }
  // Where to pack: the same folder, so that a rename suffices.
  const std::string& aside() const { return aside_; }
  // What was packed aside becomes the file, if it is complete; otherwise it is deleted. True: it became the file.
  bool keep_aside();
  void drop_aside() const;
  // Give up the locks that the backend of this process holds on the file: it is only read from now on.
  void unlock_backend() const;
  // Enter the file's pages into this process's page tables at once, where the kernel can. One by one, on first use, they
  // cost the first token more than everything else (a 160 MB file: some 40 ms).
  void fault_in() const;
  int64_t bytes() const;

 private:
  std::string stamp() const;

  std::string path_;
  std::string aside_;
  int lock_ = -1;
};

}  // namespace edgec::engine
