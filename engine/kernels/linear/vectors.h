// The vectors of a source file's instruction set: the header that it names as EDGEC_VECTORS before its includes, else
// those that every processor of the family has, so that any header is understood alone. They have:
//
//     Floats                      kVectorRows numbers, of one row each; a block has kBlockRows rows
//     same_floats, times, fused, load_floats, store_floats, load_bfloat16, load_float16
//     Ints                        as many 32-bit numbers; and_all, either and shifted take numbers below 256
//     widened, widened_signed     bytes as numbers
//     as_floats                   numbers as floats
#pragma once

#if defined(EDGEC_VECTORS)
#include EDGEC_VECTORS
#elif defined(__aarch64__)
#include "neon_vectors.h"
#elif defined(__x86_64__)
#include "x86_vectors256.h"
#else
#include "plain_floats.h"
#endif
