// Matrices in the layout that this processor's kernels read.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "region.h"

namespace edgec {

// Memory of large pages where the system has them: reading weights from 2 MB pages was measured 25 % faster than from 4 KB.
class HugeMemory {
 public:
  explicit HugeMemory(int64_t bytes);

  // Null where memory has run out.
  uint8_t* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
};

// Matrices of a program that were laid out anew, kept for all its sessions and perhaps from load to load.
class LaidOutMatrices {
 public:
  virtual ~LaidOutMatrices() = default;

  // The other layout of the bytes at `source`, or null where it is not there yet.
  virtual const uint8_t* find(const uint8_t* source, int64_t bytes) = 0;
  // Memory that stays as long as this object, to be filled with that layout; null where memory has run out.
  virtual uint8_t* add(const uint8_t* source, int64_t bytes) = 0;
};

// While it lives, what this thread lays out is kept in `matrices`.
class LaidOutScope {
 public:
  explicit LaidOutScope(LaidOutMatrices& matrices);
  ~LaidOutScope();
  LaidOutScope(const LaidOutScope&) = delete;
  LaidOutScope& operator=(const LaidOutScope&) = delete;
};

// Lay out a matrix, or every matrix of a region, that is made for another processor anew: in the scope's keeping, or
// in memory that `laid_out` keeps. Return false where memory has run out.
bool lay_out(linear::Matrix& matrix, std::vector<HugeMemory>& laid_out);
bool lay_out(Region& region, std::vector<HugeMemory>& laid_out);

}  // namespace edgec
