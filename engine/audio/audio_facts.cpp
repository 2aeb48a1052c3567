#include "audio_facts.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "core/json_facts.h"
#include "core/number_text.h"
#include "core/plain_failure.h"
#include "edgec/audio.h"

namespace edgec::runner {
namespace {

using engine::Failure;
using engine::JsonText;
using engine::natural_into;
using engine::read_some_fields;

constexpr size_t kMostNames = 1024, kMostIds = size_t{1} << 20;
// Samples that an encoder may read at a time: four minutes at 16 kHz.
constexpr int64_t kMostSamples = 1 << 22;
constexpr int64_t kMostNumber = INT32_MAX;

// What a manifest says of an encoder and a decoder.
struct EncoderDecoder {
  std::optional<WindowShape> window;
  int64_t context = 0;
};

WindowShape read_features(JsonText& json) {
  SoundShape made{};
  read_some_fields(
      json, 5,
      {{"sampling_rate", natural_into(json, made.sampling_rate, kMostNumber)},
       {"mels", natural_into(json, made.mels, kMostNumber)},
       {"frames", natural_into(json, made.frames, kMostNumber)},
       {"fft", natural_into(json, made.fft, kMostNumber)},
       {"hop", natural_into(json, made.hop, kMostNumber)}});
  // Two frames, one position of Whisper's encoder.
  return {made.sampling_rate, 1, made.window_samples(), 2 * made.hop, made};
}

WindowShape read_waveform(JsonText& json) {
  WindowShape read;
  read_some_fields(
      json, 3,
      {{"sampling_rate", natural_into(json, read.sampling_rate, kMostNumber)},
       {"fewest_samples", natural_into(json, read.fewest_samples, kMostNumber)},
       {"window_samples", natural_into(json, read.window_samples, kMostNumber)}});
  const bool sensible = read.sampling_rate > 0 && read.fewest_samples > 0 &&
      read.fewest_samples <= read.window_samples && read.window_samples <= kMostSamples;
  if (!sensible) {
    throw std::runtime_error("the manifest's waveform is beyond what the runner reads");
  }
  return read;
}

EncoderDecoder read_manifest(std::string_view manifest) {
  JsonText json = engine::manifest_json(manifest);
  EncoderDecoder read;
  const auto limits = [&] { read_some_fields(json, 1, {{"context", natural_into(json, read.context, kMostTokens)}}); };
  const auto part = [&] {
    read_some_fields(
        json, 1,
        {{"limits", limits},
         {"sound", [&] { read.window = read_features(json); }},
         {"waveform", [&] { read.window = read_waveform(json); }}});
  };
  read_some_fields(json, 0, {{"encoder_decoder", part}});
  json.end();
  if (!read.window) {
    throw std::runtime_error("speech needs a bundle that reads sound, as Whisper's and Moonshine's");
  }
  return read;
}

// An object's ids, in their order.
std::function<void()> names_into(JsonText& json, NamedTokens& known) {
  return [&json, &known] {
    json.object([&](const std::string& name) {
      if (known.size() == kMostNames) json.refuse("too many names");
      known.emplace_back(name, json.natural(kMostTokens));
    });
  };
}

// The ids of a list, or a single one.
std::function<void()> ids_into(JsonText& json, std::vector<int64_t>& ids) {
  return [&json, &ids] {
    const auto add = [&] {
      if (ids.size() == kMostIds) json.refuse("too many tokens");
      ids.push_back(json.natural(kMostTokens));
    };
    json.begins('[') ? json.array(add) : add();
  };
}

std::function<void()> id_into(JsonText& json, std::optional<int64_t>& id) {
  return [&json, &id] { id = json.natural(kMostTokens); };
}

[[noreturn]] void refuse_rule(const std::string& name) {
  throw std::runtime_error("the runner does not apply \"" + name + "\" of the generation config");
}

// Rules that Python's session applies and the runner does not: any other value than the one that asks for nothing is refused.
engine::JsonFields unknown_rules(JsonText& json) {
  const auto number = [&json](const std::string& name, double nothing) -> engine::JsonFields::value_type {
    return {name, [&json, name, nothing] { if (json.number() != nothing) refuse_rule(name); }};
  };
  const auto absent = [](const std::string& name) -> engine::JsonFields::value_type {
    return {name, [name] { refuse_rule(name); }};
  };
  return {
      {"bad_words_ids", [&json] { json.array([] { refuse_rule("bad_words_ids"); }); }},
      absent("forced_bos_token_id"), absent("forced_eos_token_id"), number("min_length", 0),
      number("no_repeat_ngram_size", 0), number("repetition_penalty", 1)};
}

// Reads all that is not in the manifest.
void read_config(std::string_view config, AudioFacts& facts) {
  JsonText json(config, "the bundle's generation_config.json", EDGEC_FAILED);
  std::optional<int64_t> start, bos;
  engine::JsonFields fields = unknown_rules(json);
  const engine::JsonFields known = {
      {"decoder_start_token_id", id_into(json, start)},
      {"bos_token_id", id_into(json, bos)},
      {"lang_to_id", names_into(json, facts.languages)},
      {"task_to_id", names_into(json, facts.tasks)},
      {"no_timestamps_token_id", id_into(json, facts.no_timestamps)},
      {"max_initial_timestamp_index", id_into(json, facts.latest_first)},
      {"eos_token_id", ids_into(json, facts.choice.eos)},
      {"suppress_tokens", ids_into(json, facts.choice.never)},
      {"begin_suppress_tokens", ids_into(json, facts.choice.not_first)}};
  fields.insert(fields.end(), known.begin(), known.end());
  read_some_fields(json, 0, fields);
  json.end();
  if (!start && !bos) json.fail("does not state \"bos_token_id\"");
  facts.start = start ? *start : *bos;
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

const NamedTokens::value_type& AudioFacts::language(const std::string& name) const {
  std::string small = name;
  for (char& letter : small) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const auto& known : languages) {
    if (known.first == small || known.first == "<|" + small + "|>") return known;
  }
  throw Failure(EDGEC_LANGUAGE_UNKNOWN, "the model does not know the language \"" + shortened(name) + "\"");
}

int64_t AudioFacts::task(const std::string& name) const {
  for (const auto& [known, token] : tasks) {
    if (known == name) return token;
  }
  throw Failure(EDGEC_AUDIO_OPTION, "the model has no task \"" + shortened(name) + "\"");
}

std::optional<TimestampRules> AudioFacts::timestamps(std::optional<bool> asked) const {
  if (!asked.value_or(no_timestamps.has_value())) return std::nullopt;
  if (!no_timestamps || choice.eos.empty()) throw Failure(EDGEC_AUDIO_OPTION, "the model has no timestamps");
  return TimestampRules{*no_timestamps + 1, *no_timestamps, choice.eos[0], latest_first};
}

AudioFacts read_audio_facts(const std::string& folder) {
  const EncoderDecoder info = read_manifest(engine::file_text(folder + "/manifest.json"));
  AudioFacts facts;
  facts.sound = *info.window;
  facts.context = info.context;
  read_config(engine::file_text(folder + "/generation_config.json"), facts);
  return facts;
}

}  // namespace edgec::runner
