#include "speech_facts.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "core/canonical_text.h"
#include "core/number_text.h"
#include "sound_file.h"

namespace edgec::runner {
namespace {

constexpr size_t kMostNames = 1024;
// Samples that an encoder may read at a time: four minutes at 16 kHz.
constexpr int64_t kMostSamples = 1 << 22;
// Rules that Python's session applies and the runner does not, with the values that ask for nothing.
constexpr std::pair<const char*, const char*> kUnknownRules[] = {
    {"bad_words_ids", "[]"},     {"forced_bos_token_id", ""}, {"forced_eos_token_id", ""},
    {"min_length", "0"},         {"no_repeat_ngram_size", "0"}, {"repetition_penalty", "1.0"}};

WindowShape of_features(std::string_view sound) {
  const SoundShape made = {
      number_of(sound, "sampling_rate", 3), number_of(sound, "mels", 3), number_of(sound, "frames", 3),
      number_of(sound, "fft", 3), number_of(sound, "hop", 3)};
  // Two frames, one position of Whisper's encoder.
  return {made.sampling_rate, 1, made.window_samples(), 2 * made.hop, made};
}

WindowShape of_samples(std::string_view waveform) {
  const WindowShape read = {
      number_of(waveform, "sampling_rate", 3), number_of(waveform, "fewest_samples", 3),
      number_of(waveform, "window_samples", 3), 1, std::nullopt};
  const bool sensible = read.sampling_rate > 0 && read.fewest_samples > 0 &&
      read.fewest_samples <= read.window_samples && read.window_samples <= kMostSamples;
  if (!sensible) {
    throw std::runtime_error("the manifest's waveform is beyond what the runner reads");
  }
  return read;
}

WindowShape audio_shape(std::string_view manifest) {
  const std::string_view info = object_of(manifest, "encoder_decoder", 1);
  const std::string_view sound = object_of(info, "sound", 2), waveform = object_of(info, "waveform", 2);
  if (sound.empty() && waveform.empty()) {
    throw std::runtime_error("speech needs a bundle that reads sound, as Whisper's and Moonshine's");
  }
  return sound.empty() ? of_samples(waveform) : of_features(sound);
}

// The ids of an object's fields, in their order.
NamedTokens named_tokens(std::string_view config, const std::string& object_name) {
  constexpr std::string_view kBegin = "\n    \"";
  NamedTokens known;
  const std::string_view fields = object_of(config, object_name, 1);
  size_t at = fields.find(kBegin);
  for (; at != std::string_view::npos && known.size() < kMostNames; at = fields.find(kBegin, at + 1)) {
    const std::string_view field = fields.substr(at);
    const std::string name(until(field.substr(kBegin.size()), "\""));
    known.emplace_back(name, number_of(field, name, 2));
  }
  return known;
}

std::optional<int64_t> number_if_stated(std::string_view config, const std::string& name) {
  return value_of(config, name, 1).empty() ? std::nullopt : std::optional<int64_t>(number_of(config, name, 1));
}

void refuse_unknown_rules(std::string_view config) {
  for (const auto& [name, nothing] : kUnknownRules) {
    const std::string found = value_of(config, name, 1);
    if (!found.empty() && found != nothing) {
      throw std::runtime_error(std::string("the runner does not apply \"") + name + "\" of the generation config");
    }
  }
}

bool contains(const std::vector<int64_t>& tokens, int64_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

std::vector<float> TokenChoice::masked(const float* logits, int64_t vocabulary, bool first) const {
  std::vector<float> allowed(logits, logits + vocabulary);
  for (const std::vector<int64_t>* tokens : {&never, first ? &not_first : nullptr}) {
    for (size_t at = 0; tokens != nullptr && at < tokens->size(); ++at) {
      if ((*tokens)[at] < vocabulary) {
        allowed[static_cast<size_t>((*tokens)[at])] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return allowed;
}

bool TokenChoice::ends(int64_t token) const {
  return contains(eos, token);
}

const NamedTokens::value_type& SpeechFacts::language(const std::string& name) const {
  std::string small = name;
  for (char& letter : small) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const auto& known : languages) {
    if (known.first == small || known.first == "<|" + small + "|>") return known;
  }
  throw Refusal(EDGEC_LANGUAGE_UNKNOWN, "the model does not know the language \"" + shortened(name) + "\"");
}

int64_t SpeechFacts::task(const std::string& name) const {
  for (const auto& [known, token] : tasks) {
    if (known == name) return token;
  }
  throw Refusal(EDGEC_AUDIO_OPTION, "the model has no task \"" + shortened(name) + "\"");
}

std::optional<TimestampRules> SpeechFacts::timestamps(std::optional<bool> asked) const {
  if (!asked.value_or(no_timestamps.has_value())) return std::nullopt;
  if (!no_timestamps || choice.eos.empty()) throw Refusal(EDGEC_AUDIO_OPTION, "the model has no timestamps");
  return TimestampRules{*no_timestamps + 1, *no_timestamps, choice.eos[0], latest_first};
}

SpeechFacts read_speech_facts(const std::string& folder) {
  const std::string manifest = text_of(folder + "/manifest.json");
  SpeechFacts facts;
  facts.sound = audio_shape(manifest);
  const std::string config = text_of(folder + "/generation_config.json");
  refuse_unknown_rules(config);
  facts.context = number_of(object_of(object_of(manifest, "encoder_decoder", 1), "limits", 2), "context", 3);
  const bool stated = !value_of(config, "decoder_start_token_id", 1).empty();
  facts.start = number_of(config, stated ? "decoder_start_token_id" : "bos_token_id", 1);
  facts.languages = named_tokens(config, "lang_to_id");
  facts.tasks = named_tokens(config, "task_to_id");
  facts.no_timestamps = number_if_stated(config, "no_timestamps_token_id");
  facts.latest_first = number_if_stated(config, "max_initial_timestamp_index");
  facts.choice = {
      numbers_of(config, "eos_token_id", 1), numbers_of(config, "suppress_tokens", 1),
      numbers_of(config, "begin_suppress_tokens", 1)};
  return facts;
}

}  // namespace edgec::runner
