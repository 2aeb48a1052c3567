// Codes as floats, and how an instruction set multiplies them; a source file may name another header as
// EDGEC_FLOAT_CODES (see vectors.h). They have:
//
//     FloatCodes<bits>            codes as floats: value = fma(code, step, start(matrix)), exact
//     add_products(values, x, sums)       sums[j] = fma(values[j], x[j], sums[j]), j < 4
//     kFloatTokens                tokens in a tile, whose 4 sums each stay in registers
//     Decoded                     DecodedBlocks of the instruction set
//     no_floats, plus             besides what vectors.h has
#pragma once

#if defined(EDGEC_FLOAT_CODES)
#include EDGEC_FLOAT_CODES
#elif defined(__aarch64__)
#include "neon_floats.h"
#elif defined(__x86_64__)
#include "decode_vectors.h"
#include "x86_codes.h"
#else
#include "plain_floats.h"
#endif
