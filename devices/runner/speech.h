// Speech to tokens: what the encoder reads of a window of sound, the encoder over it, the decoder's greedy text; timed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decoder.h"
#include "engine/c_api.h"
#include "options.h"
#include "speech_facts.h"

namespace edgec::runner {

// One method of an artifact with a session. Throws std::runtime_error.
class Method {
 public:
  // `packed`: the file of its packed weights, or empty.
  Method(const std::string& artifact, const char* name, const std::string& packed);

  // Outputs stay where they are until the next call.
  std::vector<EdgecTensor> operator()(const EdgecTensor& input);

 private:
  std::unique_ptr<EdgecModel, decltype(&edgec_model_close)> model_;
  std::unique_ptr<EdgecSession, decltype(&edgec_session_close)> session_;
};

struct HeardWindow {
  double start_s = 0;
  double end_s = 0;
  std::vector<int64_t> prompt;  // the decoder's first tokens
  std::vector<int64_t> tokens;  // what follows them, without the end
  double features_ms = 0;  // to make what the encoder reads
  double encode_ms = 0;  // encode and cross
  double write_ms = 0;
};

// A sound that is transcribed window after window, without timestamps.
class Speech {
 public:
  // Reads the sound and the bundle's facts, then opens the encoder. Throws std::runtime_error.
  explicit Speech(const Options& options);

  int64_t context() const { return facts_.context; }
  bool more() const { return place_ < static_cast<int64_t>(samples_.size()); }
  // Transcribes the next window with the bundle's decoder.
  HeardWindow next(Decoder& decoder);

 private:
  // The decoder's first tokens; detects the language in the window that was read where none was given.
  std::vector<int64_t> prompt(Decoder& decoder) const;
  // The features of a window of samples, or the samples with silence up to the fewest.
  std::vector<float> source(const float* samples, int64_t count) const;
  void read(const std::vector<float>& source, Decoder& decoder);

  SpeechFacts facts_;
  std::optional<LogMel> log_mel_;  // absent: the encoder reads samples
  std::vector<float> samples_;
  std::vector<int64_t> prompt_;  // empty until it is known
  std::string language_;
  int64_t new_tokens_;
  int64_t place_ = 0;
  Method encode_;
  Method cross_;
};

}  // namespace edgec::runner
