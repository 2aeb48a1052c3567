// The three methods of a bundle that hears, over the engine's C interface: encode, cross, forward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/c_api.h"
#include "method.h"

namespace edgec::runner {

struct TokenLogits {
  const float* data = nullptr;  // [vocabulary]; valid until the next call
  int64_t vocabulary = 0;
};

// Reads a source with the encoder, then feeds tokens to the decoder that attends to it. Throws std::runtime_error.
class HearingModel {
 public:
  // `packed`: as of Method, for encode and cross.
  HearingModel(const std::string& artifact, const std::string& packed, Method forward);

  // What the encoder reads: float32 in the shape `sizes`.
  void read(const float* source, const std::vector<int64_t>& sizes);
  // Feeds tokens at the positions from `start` on, in calls as large as the method takes; logits of the last one.
  TokenLogits feed(const int64_t* tokens, int64_t count, int64_t start);
  std::string profile() { return forward_.profile(); }

 private:
  Method encode_;
  Method cross_;
  Method forward_;
  std::vector<EdgecTensor> memory_;  // the keys and values of every layer; empty before anything was read
};

}  // namespace edgec::runner
