// A bundle that takes audio behind the C interface of audio.h, and how one is opened over a model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sound_file.h"
#include "edgec/audio.h"
#include "audio_facts.h"
#include "transcription_model.h"
#include "transcription.h"
#include "core/guarded.h"

struct EdgecAudio {
  template <typename Make>
  EdgecAudio(const std::string& bundle, const Make& make)
      : facts(edgec::runner::read_audio_facts(bundle)), frontend(facts.sound), model(make()) {}

  edgec::runner::AudioFacts facts;
  edgec::runner::AudioFrontend frontend;
  std::unique_ptr<edgec::runner::TranscriptionModel> model;
  std::optional<edgec::runner::Transcription> sound;
  edgec::runner::TranscriptSegment segment;  // the last one that was given
};

namespace edgec::runner {

// Open the bundle in a folder over the model that `make` gives; null, and the reason, where it cannot be opened.
template <typename Make>
EdgecAudio* opened_audio(const char* bundle, const Make& make, char* error, size_t capacity) {
  std::unique_ptr<EdgecAudio> made;
  const auto open = [&] {
    engine::require(bundle, "the bundle's path");
    made = std::make_unique<EdgecAudio>(bundle, make);
  };
  return engine::guarded(open, error, capacity) == EDGEC_OK ? made.release() : nullptr;
}

}  // namespace edgec::runner
