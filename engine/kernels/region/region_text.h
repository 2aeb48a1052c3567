// Reads a region from a delegate's bytes: text, one line per fact or step, words with a blank between them.
//
//     edgec.linear 3
//     block_rows 16                       of the layout of all matrices (linear/matrix.h)
//     widths 1024 1024 2048 ...           of each value; the inputs come first
//     inputs 1
//     outputs 4 5 6
//     norm OUT X EPS WEIGHT
//     group X MATRICES none|add|gate OTHER ACTIVATION int8|float32
//     matrix OUT ROWS GROUP BITS STEP OFFSET SCALES DATA BIAS     one line per matrix of the group, right after it
//     binary add|sub|mul OUT A B
//     constant add|mul OUT X COUNT DATA
//     function ACTIVATION OUT X
//     end
//
// DATA, WEIGHT and BIAS are keys of the program's named data, or - where there is none. OTHER is 0 unless the line says
// add. SCALES is a form of linear/matrix.h. ACTIVATION is none, silu, gelu, gelu_tanh, sigmoid, tanh or relu. The group's last word says how its matrices read
// X. A value is written once, before it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "region.h"

namespace edgec {

// Returns the address of at least so many bytes of named data, or null where the program has no such data.
using FetchData = std::function<const uint8_t*(std::string_view key, int64_t bytes)>;

// Returns false where the text is not a region that can be run; no data is read meanwhile.
bool read_region(std::string_view text, const FetchData& fetch, Region& region);

}  // namespace edgec
