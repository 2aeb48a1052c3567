// The facts in a bundle that are needed to transcribe speech: what its encoder reads, its first tokens, the tokens it never says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "log_mel.h"

namespace edgec::runner {

// What is done to logits before the likeliest token is chosen.
struct TokenChoice {
  std::vector<int64_t> eos;
  std::vector<int64_t> never;
  std::vector<int64_t> not_first;

  // The likeliest token that may be said next; `first`: nothing was said yet.
  int64_t likeliest(const float* logits, int64_t vocabulary, bool first) const;
  bool ends(int64_t token) const;
};

// What an encoder reads of a sound: so many samples at a time, as they are or as log-mel features.
struct HeardShape {
  int64_t sampling_rate = 0;
  int64_t fewest_samples = 1;  // silence is added to fewer
  int64_t window_samples = 0;
  std::optional<SoundShape> features;
};

struct SpeechFacts {
  HeardShape sound;
  int64_t context = 0;
  int64_t start = 0;                                       // the decoder's first token
  std::vector<std::pair<std::string, int64_t>> languages;  // as "<|en|>"; empty where the model knows one language
  std::vector<int64_t> after_language;                     // the task transcribe, no timestamps
  TokenChoice choice;

  // The token of a language such as "en". Throws std::runtime_error where the model has none.
  int64_t language(const std::string& name) const;
};

// Read manifest.json and generation_config.json of a bundle, which are not trusted. Throws std::runtime_error where the
// bundle does not transcribe sound, or its generation config asks for rules that the runner does not know.
SpeechFacts read_speech_facts(const std::string& folder);

}  // namespace edgec::runner
