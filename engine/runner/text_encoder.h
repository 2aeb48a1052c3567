// A sentence encoder's artifact over the C interface: the vector of a text's tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "core/method.h"

namespace edgec::runner {

// forward(input_ids int64 [1, T], attention_mask int64 [1, T]) -> float32 [1, D]. Functions throw std::runtime_error.
class TextEncoder {
 public:
  // The caller closes the model afterwards.
  TextEncoder(EdgecModel* model, bool profile) : forward_(model, profile) {}

  // The vector [D] of tokens, special ones included, as `Model.embed` of Python gives it.
  std::vector<float> embed(const std::vector<int64_t>& tokens);
  // Times per instruction since the last call; empty without profile.
  std::string profile() { return forward_.profile(); }

 private:
  Method forward_;
};

}  // namespace edgec::runner
