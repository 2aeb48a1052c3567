// A bundle that takes audio whose artifact edgec's engine executes.
#include <memory>

#include "audio.h"
#include "audio_model.h"

using edgec::runner::AudioModel;
using edgec::runner::Method;

EdgecAudio* edgec_audio_open(const char* bundle, const char* artifact, char* error, size_t capacity) {
  const auto make = [&] {
    edgec::engine::require(artifact, "the artifact's path");
    return std::make_unique<AudioModel>(artifact, "", Method(artifact, "forward", ""));
  };
  return edgec::runner::opened_audio(bundle, make, error, capacity);
}
