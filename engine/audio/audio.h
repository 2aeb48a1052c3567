// A bundle that takes audio behind the C interface of audio.h, and how one is opened over a model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sound_file.h"
#include "edgec/audio.h"
#include "speech_facts.h"
#include "speech_model.h"
#include "transcription.h"
#include "core/stated.h"

struct EdgecAudio {
  template <typename Make>
  EdgecAudio(const std::string& bundle, const Make& make)
      : facts(edgec::runner::read_speech_facts(bundle)), ear(facts.sound), model(make()) {}

  edgec::runner::SpeechFacts facts;
  edgec::runner::AudioFrontend ear;
  std::unique_ptr<edgec::runner::SpeechModel> model;
  std::optional<edgec::runner::Transcription> sound;
  edgec::runner::SpeechSegment segment;  // the last one that was given
};

namespace edgec::runner {

// Open the bundle in a folder over the model that `make` gives; null, and the reason, where it cannot be opened.
template <typename Make>
EdgecAudio* opened_audio(const char* bundle, const Make& make, char* error, size_t capacity) {
  std::unique_ptr<EdgecAudio> made;
  const auto open = [&] {
    require(bundle, "the bundle's path");
    made = std::make_unique<EdgecAudio>(bundle, make);
  };
  return stated<Refusal>(open, error, capacity) == EDGEC_OK ? made.release() : nullptr;
}

}  // namespace edgec::runner
