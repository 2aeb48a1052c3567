// The three methods of a bundle that takes audio, over the engine's C interface: encode, cross, forward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "edgec/engine.h"
#include "core/method.h"
#include "transcription_model.h"

namespace edgec::runner {

class AudioModel final : public TranscriptionModel {
 public:
  // `packed`: as of Method, for encode and cross.
  AudioModel(const std::string& artifact, const std::string& packed, Method forward);

  void read(const float* source, const std::vector<int64_t>& sizes) override;
  // In calls as large as the method takes.
  TokenLogits feed(const int64_t* tokens, int64_t count, int64_t start) override;
  std::string profile() { return forward_.profile(); }

 private:
  Method encode_;
  Method cross_;
  Method forward_;
  std::vector<EdgecTensor> memory_;  // the keys and values of every layer; empty before anything was read
};

}  // namespace edgec::runner
