// The matrices of an artifact that were laid out anew for this processor, in a file that later loads map.
//
//     matrices, each at a multiple of 64 bytes
//     index        one entry per matrix: its offset in the artifact, its bytes, its offset in this file (int64 each)
//     footer       entries, bytes of the artifact (int64 each), "EDGC", version (int32)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "edgec/engine.h"
#include "mapped_file.h"
#include "packed_file.h"
#include "kernels/region/lay_out.h"

namespace edgec::engine {

class LaidOutFile final : public LaidOutMatrices {
 public:
  // `packed_path` is that of XNNPACK's packed weights, beside which the file lies; empty: matrices stay in memory.
  LaidOutFile(const std::string& packed_path, const MappedFile& artifact);
  ~LaidOutFile() override;
  LaidOutFile(const LaidOutFile&) = delete;
  LaidOutFile& operator=(const LaidOutFile&) = delete;

  const uint8_t* find(const uint8_t* source, int64_t bytes) override;
  uint8_t* add(const uint8_t* source, int64_t bytes) override;

  // Write what was added, where the disk has room, and end this load's turn on the file.
  void finish();
  // Where the matrices come from; EDGEC_PACKED_IN_MEMORY also where none was laid out anew.
  EdgecPacked origin() const { return origin_; }
  // The size of the file; 0 without one.
  int64_t bytes() const { return bytes_; }

 private:
  struct Kept {
    const uint8_t* data;
    int64_t bytes;
  };

  void open();
  bool read_index();
  bool write() const;

  const MappedFile& artifact_;
  std::string path_;
  std::optional<PackedFile> file_;  // from the first matrix until finish()
  std::optional<MappedFile> mapped_;
  std::map<int64_t, Kept> kept_;  // by offset in the artifact
  std::vector<HugeMemory> memory_;
  bool added_ = false;
  EdgecPacked origin_ = EDGEC_PACKED_IN_MEMORY;
  int64_t bytes_ = 0;
};

}  // namespace edgec::engine
