#include "edgec/audio.h"

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "audio.h"

using edgec::engine::guarded;
using edgec::engine::require;
using edgec::runner::TranscriptSegment;
using edgec::runner::TokenLogits;
using edgec::runner::Transcription;
using edgec::runner::TranscriptionRequest;

namespace {

TranscriptionRequest request_of(const EdgecAudioOptions* options) {
  TranscriptionRequest asked;
  if (options == nullptr) return asked;
  if (options->language != nullptr) asked.language = options->language;
  if (options->task != nullptr) asked.task = options->task;
  if (options->timestamps < EDGEC_TIMESTAMPS_IF_KNOWN || options->timestamps > EDGEC_TIMESTAMPS_ON ||
      options->most_tokens < 0) {
    throw std::invalid_argument("an option is out of range");
  }
  if (options->timestamps != EDGEC_TIMESTAMPS_IF_KNOWN) asked.timestamps = options->timestamps == EDGEC_TIMESTAMPS_ON;
  asked.new_tokens = options->most_tokens;
  return asked;
}

// Begin the sound that `read` gives at the model's rate.
template <typename Read>
int begun(EdgecAudio* audio, const EdgecAudioOptions* options, const Read& read, char* error, size_t capacity) {
  const auto begin = [&] {
    require(audio, "the bundle");
    audio->sound.reset();
    const TranscriptionRequest asked = request_of(options);
    std::vector<float> samples = read(audio->facts.sound.sampling_rate);
    audio->sound.emplace(audio->facts, audio->frontend, *audio->model, std::move(samples), asked);
  };
  return guarded(begin, error, capacity);
}

// Do the next step of a sound; returns what it did.
EdgecAudioProgress advanced(EdgecAudio& audio) {
  if (!audio.sound) return EDGEC_AUDIO_DONE;
  std::optional<TranscriptSegment> next = audio.sound->take();
  if (!next) {
    if (!audio.sound->step()) return EDGEC_AUDIO_DONE;
    next = audio.sound->take();
  }
  if (!next) return EDGEC_AUDIO_WORKED;
  audio.segment = std::move(*next);
  return EDGEC_AUDIO_SEGMENT;
}

}  // namespace

void edgec_audio_close(EdgecAudio* audio) {
  delete audio;
}

int edgec_audio_begin(
    EdgecAudio* audio, const float* samples, int64_t count, int64_t rate, const EdgecAudioOptions* options,
    char* error, size_t capacity) {
  const auto read = [&](int64_t wanted) {
    if (count > 0) require(samples, "the samples");
    return edgec::runner::checked_sound(samples, count, rate, wanted);
  };
  return begun(audio, options, read, error, capacity);
}

int edgec_audio_begin_file(
    EdgecAudio* audio, const char* path, const EdgecAudioOptions* options, char* error, size_t capacity) {
  const auto read = [&](int64_t wanted) {
    require(path, "the sound's path");
    return edgec::runner::read_sound(path, wanted);
  };
  return begun(audio, options, read, error, capacity);
}

int edgec_audio_step(EdgecAudio* audio, int32_t* progress, EdgecSegment* segment, char* error, size_t capacity) {
  const auto step = [&] {
    require(audio, "the bundle");
    require(progress, "the progress");
    require(segment, "the segment");
    *progress = advanced(*audio);
    const TranscriptSegment& last = audio->segment;
    const bool given = *progress == EDGEC_AUDIO_SEGMENT;
    *segment = given ? EdgecSegment{last.start_s, last.end_s, last.tokens.data(), last.tokens.size()} : EdgecSegment{};
  };
  const int status = guarded(step, error, capacity);
  if (status != EDGEC_OK && audio != nullptr) audio->sound.reset();
  return status;
}

void edgec_audio_summary(const EdgecAudio* audio, EdgecAudioSummary* summary) {
  if (summary == nullptr) return;
  *summary = {"", -1, 0, 0, 0, 0};
  if (audio == nullptr || !audio->sound) return;
  const Transcription& sound = *audio->sound;
  const auto& stamps = sound.timestamps();
  const auto& times = sound.times();
  *summary = {sound.language().c_str(), stamps ? stamps->first : -1, sound.sound_s(), times.features_ms,
              times.encode_ms,          times.write_ms};
}

int edgec_audio_read(EdgecAudio* audio, const float* source, size_t count, char* error, size_t capacity) {
  const auto read = [&] {
    require(audio, "the bundle");
    require(source, "the source");
    audio->sound.reset();
    audio->model->read(source, audio->frontend.sizes(count));
  };
  return guarded(read, error, capacity);
}

int edgec_audio_feed(
    EdgecAudio* audio, const int64_t* tokens, size_t count, int64_t start, const float** logits, size_t* vocabulary,
    char* error, size_t capacity) {
  const auto feed = [&] {
    require(audio, "the bundle");
    require(tokens, "the tokens");
    require(logits, "the logits");
    require(vocabulary, "the vocabulary's size");
    audio->sound.reset();
    const auto fed = static_cast<int64_t>(count);
    if (start < 0 || fed > audio->facts.context || start > audio->facts.context - fed) {
      throw std::invalid_argument("the positions lie outside the context");
    }
    const TokenLogits last = audio->model->feed(tokens, fed, start);
    *logits = last.data;
    *vocabulary = static_cast<size_t>(last.vocabulary);
  };
  return guarded(feed, error, capacity);
}
