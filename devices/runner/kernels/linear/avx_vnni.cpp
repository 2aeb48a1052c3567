// The kernel for AVX-VNNI.
#if defined(__x86_64__)

#include "plain.h"

namespace edgec::linear {

extern const Kernel kAvxVnni;
const Kernel kAvxVnni = {"avxvnni", Layout::kRows16, false, quantize_plainly, multiply_plainly};

}  // namespace edgec::linear

#endif
