// The instructions that matrices of few bits are multiplied with.
#pragma once

#include <string>

namespace edgec::engine {

// The names of the kernels that this processor has, best first, with a blank between two.
std::string kernel_names();

// Throws where EDGEC_ISA names no kernel that this processor has.
void require_known_isa();

}  // namespace edgec::engine
