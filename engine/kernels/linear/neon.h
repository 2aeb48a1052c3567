// NEON with dotprod, and with i8mm where EDGEC_WITH_I8MM is defined: the features that a source file of arm64 names
// between EDGEC_BEGIN_ISA and EDGEC_END_ISA, and their intrinsics.
#pragma once

#include "isa.h"

#if defined(EDGEC_WITH_I8MM)
#define EDGEC_FEATURES "dotprod,i8mm"
#else
#define EDGEC_FEATURES "dotprod"
#endif

#if defined(__clang__) && __clang_major__ < 16
// Here arm_neon.h declares only what the command line allows.
#define __ARM_FEATURE_DOTPROD 1
#if defined(EDGEC_WITH_I8MM)
#define __ARM_FEATURE_MATMUL_INT8 1
#endif
EDGEC_BEGIN_ISA(EDGEC_FEATURES)
#include <arm_neon.h>
EDGEC_END_ISA
#else
#include <arm_neon.h>
#endif

#if !defined(__clang__)
#undef EDGEC_FEATURES
#if defined(EDGEC_WITH_I8MM)
#define EDGEC_FEATURES "arch=armv8.2-a+dotprod+i8mm"
#else
#define EDGEC_FEATURES "arch=armv8.2-a+dotprod"
#endif
#endif

// Between these lines GCC keeps the order in which functions are written. Its scheduler unpacks a whole slice first and has
// no registers left for sums.
#if defined(__clang__)
#define EDGEC_BEGIN_ORDER
#define EDGEC_END_ORDER
#else
#define EDGEC_BEGIN_ORDER EDGEC_PRAGMA(GCC push_options) EDGEC_PRAGMA(GCC optimize("no-schedule-insns"))
#define EDGEC_END_ORDER EDGEC_PRAGMA(GCC pop_options)
#endif

// Parts of a tile: its sums stay in registers only where everything is one function.
#define EDGEC_PART inline __attribute__((always_inline))
// A tile: a function by itself, so that its pointers have registers, too.
#define EDGEC_TILE __attribute__((noinline))
