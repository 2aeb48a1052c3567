// The kernel for dotprod.
#if defined(__aarch64__)

#include "plain.h"

namespace edgec::linear {

extern const Kernel kDotprod;
const Kernel kDotprod = {"dotprod", Layout::kRows8, false, quantize_plainly, multiply_plainly};

}  // namespace edgec::linear

#endif
