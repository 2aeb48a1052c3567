// The kernel for i8mm.
#if defined(__aarch64__)

#include "plain.h"

namespace edgec::linear {

extern const Kernel kI8mm;
const Kernel kI8mm = {"i8mm", Layout::kRows8, false, quantize_plainly, multiply_plainly};

}  // namespace edgec::linear

#endif
