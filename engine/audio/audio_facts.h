// The facts in a bundle that are needed to transcribe speech: what its encoder reads, its first tokens, the tokens it never says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "log_mel.h"
#include "timestamps.h"

namespace edgec::runner {

// What is done to logits before the likeliest token is chosen.
struct TokenChoice {
  std::vector<int64_t> eos;
  std::vector<int64_t> never;
  std::vector<int64_t> not_first;

  // The logits [vocabulary], -infinity for tokens that may not be said next; `first`: nothing was said yet.
  std::vector<float> masked(const float* logits, int64_t vocabulary, bool first) const;
  bool ends(int64_t token) const;
};

// What an encoder reads of a sound: so many samples at a time, as they are or as log-mel features.
struct WindowShape {
  int64_t sampling_rate = 0;
  int64_t fewest_samples = 1;  // silence is added to fewer
  int64_t window_samples = 0;
  int64_t step_samples = 1;  // of the model's timestamps
  std::optional<SoundShape> features;
};

using NamedTokens = std::vector<std::pair<std::string, int64_t>>;

struct AudioFacts {
  WindowShape sound;
  int64_t context = 0;
  int64_t start = 0;      // the decoder's first token
  NamedTokens languages;  // as "<|en|>"; empty where the model knows one language
  NamedTokens tasks;
  std::optional<int64_t> no_timestamps;  // asks for a text without timestamps
  TokenChoice choice;

  // The language such as "en", with its token. Throws Failure where the model has none.
  const NamedTokens::value_type& language(const std::string& name) const;
  // The token of a task. Throws Failure likewise.
  int64_t task(const std::string& name) const;
  // Whisper's rules where timestamps are asked for (nothing: where the model has them). Throws Failure where it has none.
  std::optional<TimestampRules> timestamps(std::optional<bool> asked) const;

  std::optional<int64_t> latest_first;  // of the rules
};

// Read manifest.json and generation_config.json of a bundle, which are not trusted. Throws std::runtime_error where the
// bundle does not transcribe sound, or its generation config asks for rules that the runner does not know.
AudioFacts read_audio_facts(const std::string& folder);

}  // namespace edgec::runner
