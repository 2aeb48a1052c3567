// The functions of one instruction set's source file are compiled for it and called only where the processor has it, so
// that one library serves every processor. Between these two lines call nothing that is inline elsewhere (std::min, ...):
// the linker keeps one copy of such a function, and it might be the one that only new processors can execute.
#pragma once

#define EDGEC_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define EDGEC_BEGIN_ISA(features) \
  EDGEC_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define EDGEC_END_ISA EDGEC_PRAGMA(clang attribute pop)
#else
#define EDGEC_BEGIN_ISA(features) EDGEC_PRAGMA(GCC push_options) EDGEC_PRAGMA(GCC target(features))
#define EDGEC_END_ISA EDGEC_PRAGMA(GCC pop_options)
#endif

#define EDGEC_UNROLL _Pragma("GCC unroll 16")
#define EDGEC_INLINE inline __attribute__((always_inline))
