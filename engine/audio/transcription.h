// Speech to tokens: what the encoder reads of a window of sound, the encoder over it, the decoder's greedy text; timed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "log_mel.h"
#include "audio_facts.h"
#include "transcription_model.h"
#include "timestamps.h"

namespace edgec::runner {

struct TranscriptionRequest {
  std::string language;  // that is spoken; empty: detected in the first window
  std::string task = "transcribe";
  std::optional<bool> timestamps;  // nothing: where the model has them
  int64_t new_tokens = 0;          // of a window at most; 0: as many as the context takes
  std::vector<int64_t> prompt;     // in place of the decoder's first tokens
};

// What was said, and when; timestamps are among the tokens.
struct TranscriptSegment {
  double start_s = 0;
  double end_s = 0;
  std::vector<int64_t> tokens;
};

struct TranscriptionTimes {
  double features_ms = 0;  // to make what the encoder reads
  double encode_ms = 0;    // encode and cross
  double write_ms = 0;     // prompts and tokens
};

// What an encoder reads of a window of sound, and how.
class AudioFrontend {
 public:
  // Throws std::runtime_error where the features make no sense.
  explicit AudioFrontend(const WindowShape& shape);

  // The features of a window of samples, or the samples with silence up to the fewest.
  std::vector<float> source(const float* samples, int64_t count) const;
  // The shape of a source of so many values. Throws std::invalid_argument where the encoder reads no such source.
  std::vector<int64_t> sizes(size_t values) const;

 private:
  WindowShape shape_;
  std::optional<LogMel> log_mel_;  // absent: the encoder reads samples
};

// A sound that is transcribed, a window or a token at a time. The facts, the frontend and the model must outlive it, and one
// transcription uses the model at a time. Throws Failure where the model cannot do what is asked, std::runtime_error
// where it fails.
class Transcription {
 public:
  Transcription(
      const AudioFacts& facts, const AudioFrontend& frontend, TranscriptionModel& model, std::vector<float> samples,
      TranscriptionRequest asked);

  // Reads the next window or writes the next token; false where the whole sound is written.
  bool step();
  // Takes the next segment that is certain.
  std::optional<TranscriptSegment> take();

  const std::vector<int64_t>& prompt() const { return prompt_; }
  const std::string& language() const { return language_; }  // its token's name; empty until it is known
  const std::optional<TimestampRules>& timestamps() const { return stamps_; }
  double sound_s() const { return seconds(static_cast<double>(count_)); }
  const TranscriptionTimes& times() const { return times_; }

 private:
  void read_window();
  void write_token();
  void end_window();
  // The tokens that every window's text begins with.
  std::vector<int64_t> first_tokens();
  // The language's token; detected in the window that was read, after the decoder's first token, where none was given.
  int64_t language_token(int64_t start);
  int64_t window_samples() const;
  double seconds(double samples) const { return samples / static_cast<double>(facts_.sound.sampling_rate); }

  const AudioFacts& facts_;
  const AudioFrontend& frontend_;
  TranscriptionModel& model_;
  std::vector<float> samples_;  // given back at the end
  int64_t count_;
  TranscriptionRequest asked_;
  std::optional<TimestampRules> stamps_;
  std::vector<int64_t> prompt_;  // empty until it is known
  std::string language_;
  std::deque<TranscriptSegment> certain_;
  std::vector<int64_t> said_;  // in this window
  TokenLogits logits_;
  bool writing_ = false;
  int64_t place_ = 0;
  TranscriptionTimes times_;
};

}  // namespace edgec::runner
