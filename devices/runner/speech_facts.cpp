#include "speech_facts.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "canonical_text.h"
#include "options.h"

namespace edgec::runner {
namespace {

constexpr size_t kMostLanguages = 1024;
// Samples that an encoder may read at a time: four minutes at 16 kHz.
constexpr int64_t kMostSamples = 1 << 22;
// Rules that Python's session applies and the runner does not, with the values that ask for nothing.
constexpr std::pair<const char*, const char*> kUnknownRules[] = {
    {"bad_words_ids", "[]"},     {"forced_bos_token_id", ""}, {"forced_eos_token_id", ""},
    {"min_length", "0"},         {"no_repeat_ngram_size", "0"}, {"repetition_penalty", "1.0"}};

// The lines of an object whose fields lie `depth` levels deep; empty without it.
std::string_view object(std::string_view text, const std::string& name, size_t depth) {
  const std::string indent = "\n" + std::string(2 * depth, ' ');
  const std::string_view rest = after(text, indent + "\"" + name + "\": {");
  const size_t end = rest.find(indent + "}");
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

// The text of a field's value `depth` levels deep, lists with their brackets; empty where there is none, or null.
std::string value(std::string_view text, const std::string& name, size_t depth) {
  const std::string_view rest = after(text, "\n" + std::string(2 * depth, ' ') + "\"" + name + "\": ");
  const bool list = !rest.empty() && rest[0] == '[';
  const size_t end = list ? rest.find(']') + 1 : rest.find_first_of(",\n");
  const std::string found(rest.substr(0, list && end == 0 ? 0 : end));
  return found == "null" ? "" : found;
}

int64_t number(std::string_view text, const std::string& name, size_t depth) {
  const std::string found = value(text, name, depth);
  if (found.empty()) {
    throw std::runtime_error("the bundle does not state \"" + name + "\"");
  }
  return read_number(found, kMostTokens);
}

// The ids of a field that is a number, a list or absent.
std::vector<int64_t> ids(std::string_view config, const std::string& name) {
  std::string found = value(config, name, 1);
  found.erase(std::remove_if(found.begin(), found.end(), [](char c) { return c == '[' || c == ']'; }), found.end());
  return read_tokens(found);
}

HeardShape of_features(std::string_view sound) {
  const SoundShape made = {number(sound, "sampling_rate", 3), number(sound, "mels", 3), number(sound, "frames", 3),
                           number(sound, "fft", 3), number(sound, "hop", 3)};
  return {made.sampling_rate, 1, made.window_samples(), made};
}

HeardShape of_samples(std::string_view waveform) {
  const HeardShape read = {number(waveform, "sampling_rate", 3), number(waveform, "fewest_samples", 3),
                           number(waveform, "window_samples", 3), std::nullopt};
  const bool sensible = read.sampling_rate > 0 && read.fewest_samples > 0 &&
      read.fewest_samples <= read.window_samples && read.window_samples <= kMostSamples;
  if (!sensible) {
    throw std::runtime_error("the manifest's waveform is beyond what the runner reads");
  }
  return read;
}

HeardShape heard_shape(std::string_view manifest) {
  const std::string_view info = object(manifest, "encoder_decoder", 1);
  const std::string_view sound = object(info, "sound", 2), waveform = object(info, "waveform", 2);
  if (sound.empty() && waveform.empty()) {
    throw std::runtime_error("--audio needs a bundle that reads sound, as Whisper's and Moonshine's");
  }
  return sound.empty() ? of_samples(waveform) : of_features(sound);
}

std::vector<std::pair<std::string, int64_t>> languages(std::string_view config) {
  std::vector<std::pair<std::string, int64_t>> known;
  std::string_view rest = object(config, "lang_to_id", 1);
  for (rest = after(rest, "\n    \""); !rest.empty() && known.size() < kMostLanguages; rest = after(rest, "\n    \"")) {
    const std::string name(until(rest, "\""));
    known.emplace_back(name, number("\n    \"" + std::string(rest), name, 2));
  }
  return known;
}

void refuse_unknown_rules(std::string_view config) {
  for (const auto& [name, nothing] : kUnknownRules) {
    const std::string found = value(config, name, 1);
    if (!found.empty() && found != nothing) {
      throw std::runtime_error(std::string("the runner does not apply \"") + name + "\" of the generation config");
    }
  }
}

bool contains(const std::vector<int64_t>& tokens, int64_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

int64_t TokenChoice::likeliest(const float* logits, int64_t vocabulary, bool first) const {
  std::vector<float> allowed(logits, logits + vocabulary);
  for (const std::vector<int64_t>* tokens : {&never, first ? &not_first : nullptr}) {
    for (size_t at = 0; tokens != nullptr && at < tokens->size(); ++at) {
      if ((*tokens)[at] < vocabulary) {
        allowed[static_cast<size_t>((*tokens)[at])] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return std::max_element(allowed.begin(), allowed.end()) - allowed.begin();
}

bool TokenChoice::ends(int64_t token) const {
  return contains(eos, token);
}

int64_t SpeechFacts::language(const std::string& name) const {
  for (const auto& [known, token] : languages) {
    if (known == name || known == "<|" + name + "|>") return token;
  }
  throw std::runtime_error("the model does not know the language \"" + shortened(name) + "\"");
}

SpeechFacts read_speech_facts(const std::string& folder) {
  const std::string manifest = text_of(folder + "/manifest.json");
  SpeechFacts facts;
  facts.sound = heard_shape(manifest);
  const std::string config = text_of(folder + "/generation_config.json");
  refuse_unknown_rules(config);
  facts.context = number(object(object(manifest, "encoder_decoder", 1), "limits", 2), "context", 3);
  const bool stated = !value(config, "decoder_start_token_id", 1).empty();
  facts.start = number(config, stated ? "decoder_start_token_id" : "bos_token_id", 1);
  facts.languages = languages(config);
  if (!facts.languages.empty()) {
    facts.after_language.push_back(number(object(config, "task_to_id", 1), "transcribe", 2));
  }
  for (const int64_t token : ids(config, "no_timestamps_token_id")) {
    facts.after_language.push_back(token);
  }
  facts.choice = {ids(config, "eos_token_id"), ids(config, "suppress_tokens"), ids(config, "begin_suppress_tokens")};
  return facts;
}

}  // namespace edgec::runner
