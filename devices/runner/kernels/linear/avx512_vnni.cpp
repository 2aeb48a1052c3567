// The kernel for AVX-512-VNNI.
#if defined(__x86_64__)

#include "plain.h"

namespace edgec::linear {

extern const Kernel kAvx512Vnni;
const Kernel kAvx512Vnni = {"avx512vnni", Layout::kRows16, false, quantize_plainly, multiply_plainly};

}  // namespace edgec::linear

#endif
