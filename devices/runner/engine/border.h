// What callers of the C interface may pass in: everything else is refused before ExecuTorch sees it, which aborts.
#pragma once

#include <cstddef>
#include <string>

#include "c_api.h"

namespace edgec::engine {

// Throws Failure (EDGEC_REFUSED) unless the pointer leads somewhere.
void require(const void* pointer, const char* name);
// Throws Failure unless the tensor has a known dtype, rank and sizes, at least one value, and data.
void check_tensor(const EdgecTensor& tensor, size_t index);
// Throws Failure unless tokens and positions (int64, of one length) are not negative, rows lie among them, and there are
// no more than the model takes. The three inputs have passed check_tensor.
void check_decoder_call(const EdgecTensor* inputs, const EdgecModelInfo& model);
// The letters of a sha256, or of a part of it.
bool is_digest(const std::string& text);

}  // namespace edgec::engine
