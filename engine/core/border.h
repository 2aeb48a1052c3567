// Checks of what callers pass to the C interface: bad input is refused before ExecuTorch sees it, which would abort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "edgec/engine.h"

namespace edgec::engine {

// Throws Failure unless the tensor has a known dtype, rank and sizes, at least one value, and data.
void check_tensor(const EdgecTensor& tensor, size_t index);
// Throws Failure unless tokens and positions (int64, of one length) are non-negative, rows are indices into them, and
// the model takes so many. The rows are the last input. The inputs must have passed check_tensor.
void check_decoder_call(const EdgecTensor* inputs, size_t count, const EdgecModelInfo& model);
// Throws Failure unless positions of a decoder's call are non-negative, and no more than the model takes; likewise.
void check_positions(const EdgecTensor& positions, const EdgecModelInfo& model);
// A decoder's input of indices, [1, count] where it is batched; it reads `values` where they lie.
EdgecTensor integers(const int64_t* values, size_t count, bool batched);
// Whether a text is a sha256 in hex, or the beginning of one.
bool is_digest(const std::string& text);

}  // namespace edgec::engine
