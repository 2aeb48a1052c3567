#include "instructions.h"

#include "failure.h"
#include "kernels/linear/kernel.h"

namespace edgec::engine {

std::string kernel_names() {
  std::string names;
  const linear::Kernels available = linear::available_kernels();
  for (int i = 0; i < available.count; i++) names += (i == 0 ? "" : " ") + std::string(available.kernels[i]->name);
  return names;
}

void require_known_isa() {
  const char* asked = linear::kernel_asked_for();
  if (asked == nullptr || linear::kernel_named(asked) != nullptr) return;
  throw Failure(EDGEC_REFUSED, "EDGEC_ISA=" + std::string(asked) + " names no instruction set that edgec's kernels have on " +
                                   "this processor; unset it, or set it to one of: " + kernel_names());
}

}  // namespace edgec::engine
