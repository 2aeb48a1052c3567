// How a source file's instruction set multiplies codes by tokens: the header that it names as EDGEC_PRODUCTS. It has
// `Products<bits>`:
//
//     kPlanes                 vectors of codes that stand for one: 2 where its codes are multiplied apart
//     kMostTokens             tokens in a tile
//     kWide                   whether a running sum of a slice is its own total where the step is 1
//     Slice, read_slice       a slice of a token's values, as they are multiplied
//     four(slice, n, plane)   values 4n .. 4n + 3 of it
//     read(slice, n, planes)  the codes of vector n of a slice
//     add(sum, codes, four)   sum + codes * values, in whatever form
//     steps(step)             the step, in whatever form
//     total(sum, steps)       step * what a running sum stands for, int32
#pragma once

#if defined(EDGEC_PRODUCTS)
#include EDGEC_PRODUCTS
#else
#include "x86_pairs.h"
#endif
