// What a transcription asks of a model, whatever executes its functions.
#pragma once

#include <cstdint>
#include <vector>

namespace edgec::runner {

struct TokenLogits {
  const float* data = nullptr;  // [vocabulary]; valid until the next call
  int64_t vocabulary = 0;
};

// Reads a source with the encoder, then feeds tokens to the decoder that attends to it. Throws std::runtime_error.
class TranscriptionModel {
 public:
  virtual ~TranscriptionModel() = default;

  // What the encoder reads: float32 in the shape `sizes`.
  virtual void read(const float* source, const std::vector<int64_t>& sizes) = 0;
  // Feeds tokens at the positions from `start` on; logits of the last one.
  virtual TokenLogits feed(const int64_t* tokens, int64_t count, int64_t start) = 0;
};

}  // namespace edgec::runner
