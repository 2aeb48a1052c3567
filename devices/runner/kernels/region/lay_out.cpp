#include "region/lay_out.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "linear/kernel.h"

namespace edgec {

HugeMemory::HugeMemory(int64_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;
  const size_t rounded = (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kPage, rounded)));
#if defined(__linux__)
  if (data_ != nullptr) (void)madvise(data_.get(), rounded, MADV_HUGEPAGE);
#endif
}

bool lay_out(Region& region, std::vector<HugeMemory>& laid_out) {
  const linear::Layout wanted = linear::kernel_in_force().layout;
  for (Step& step : region.steps) {
    Group* group = std::get_if<Group>(&step);
    for (size_t i = 0; group != nullptr && i < group->products.size(); i++) {
      linear::Matrix& matrix = group->products[i].matrix;
      if (matrix.layout == wanted) continue;
      linear::Matrix laid = matrix;
      laid.layout = wanted;
      HugeMemory memory(laid.bytes());
      if (memory.data() == nullptr) return false;
      linear::relay(matrix, wanted, memory.data());
      laid.data = memory.data();
      matrix = laid;
      laid_out.push_back(std::move(memory));
    }
  }
  return true;
}

}  // namespace edgec
