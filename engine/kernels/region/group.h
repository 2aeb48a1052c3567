// Matrices that read the same tokens, multiplied on all threads.
#pragma once

#include "region.h"

namespace edgec {

// values[i] is where value i of these tokens lies.
void run_group(const Group& group, const std::vector<int64_t>& widths, const std::vector<float*>& values,
               int64_t tokens);

}  // namespace edgec
