// Functions of one number, over arrays.
#pragma once

#include <cstdint>

namespace edgec {

enum class Activation { kNone, kSilu, kGelu, kGeluTanh, kSigmoid, kTanh, kRelu };

// x [count], in place.
void activate(Activation activation, float* x, int64_t count);

}  // namespace edgec
