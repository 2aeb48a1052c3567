// The kernel for AVX2.
#if defined(__x86_64__)

#include "plain.h"

namespace edgec::linear {

extern const Kernel kAvx2;
const Kernel kAvx2 = {"avx2", Layout::kRows16, false, quantize_plainly, multiply_plainly};

}  // namespace edgec::linear

#endif
