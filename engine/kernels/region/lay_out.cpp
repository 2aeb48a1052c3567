#include "lay_out.h"

#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kernels/linear/kernel.h"

namespace edgec {
namespace {

thread_local LaidOutMatrices* in_scope = nullptr;

}  // namespace

LaidOutScope::LaidOutScope(LaidOutMatrices& matrices) { in_scope = &matrices; }

LaidOutScope::~LaidOutScope() { in_scope = nullptr; }

HugeMemory::HugeMemory(int64_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;
  const size_t rounded = (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
  void* memory = nullptr;
  // Android has aligned_alloc from API level 28 on only.
  if (posix_memalign(&memory, kPage, rounded) == 0) data_.reset(static_cast<uint8_t*>(memory));
#if defined(__linux__)
  if (data_ != nullptr) (void)madvise(data_.get(), rounded, MADV_HUGEPAGE);
#endif
}

bool lay_out(linear::Matrix& matrix, std::vector<HugeMemory>& laid_out) {
  const linear::Layout wanted = linear::kernel_in_force().layout;
  if (matrix.layout == wanted) return true;
  linear::Matrix laid = matrix;
  laid.layout = wanted;
  laid.data = in_scope == nullptr ? nullptr : in_scope->find(matrix.data, laid.bytes());
  if (laid.data == nullptr) {
    if (in_scope == nullptr) laid_out.emplace_back(laid.bytes());
    uint8_t* to = in_scope == nullptr ? laid_out.back().data() : in_scope->add(matrix.data, laid.bytes());
    if (to == nullptr) return false;
    linear::relay(matrix, wanted, to);
    laid.data = to;
  }
  matrix = laid;
  return true;
}

bool lay_out(Region& region, std::vector<HugeMemory>& laid_out) {
  for (Step& step : region.steps) {
    Group* group = std::get_if<Group>(&step);
    for (size_t i = 0; group != nullptr && i < group->products.size(); i++) {
      if (!lay_out(group->products[i].matrix, laid_out)) return false;
    }
  }
  return true;
}

}  // namespace edgec
