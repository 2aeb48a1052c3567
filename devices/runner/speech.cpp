#include "speech.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "sound_file.h"

namespace edgec::runner {
namespace {

constexpr size_t kErrorLetters = 1024;
constexpr int32_t kFloat32 = 6;

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <typename Handle>
Handle* made(Handle* handle, const char* error) {
  if (handle == nullptr) {
    throw std::runtime_error(error);
  }
  return handle;
}

EdgecModel* opened_model(const std::string& artifact, const char* name, const std::string& packed) {
  char error[kErrorLetters] = "";
  const std::string path = packed.empty() ? "" : packed + "." + name;
  EdgecModel* model =
      edgec_model_open(artifact.c_str(), name, path.empty() ? nullptr : path.c_str(), error, sizeof error);
  return made(model, error);
}

EdgecSession* opened_session(EdgecModel* model) {
  char error[kErrorLetters] = "";
  EdgecSession* session = edgec_session_open(model, 0, error, sizeof error);
  return made(session, error);
}

std::optional<LogMel> log_mel_of(const HeardShape& shape) {
  return shape.features ? std::optional<LogMel>(*shape.features) : std::nullopt;
}

}  // namespace

Method::Method(const std::string& artifact, const char* name, const std::string& packed)
    : model_(opened_model(artifact, name, packed), edgec_model_close),
      session_(opened_session(model_.get()), edgec_session_close) {}

std::vector<EdgecTensor> Method::operator()(const EdgecTensor& input) {
  char error[kErrorLetters] = "";
  if (edgec_session_run(session_.get(), &input, 1, error, sizeof error) != EDGEC_OK) {
    throw std::runtime_error(error);
  }
  std::vector<EdgecTensor> outputs(edgec_session_output_count(session_.get()));
  for (size_t index = 0; index < outputs.size(); ++index) {
    edgec_session_output(session_.get(), index, &outputs[index]);
  }
  if (outputs.empty()) {
    throw std::runtime_error("a method of the encoder returns nothing");
  }
  return outputs;
}

Speech::Speech(const Options& options)
    : facts_(read_speech_facts(options.bundle)),
      log_mel_(log_mel_of(facts_.sound)),
      samples_(read_sound(options.audio, facts_.sound.sampling_rate)),
      prompt_(options.tokens),
      language_(options.language),
      new_tokens_(options.new_tokens),
      encode_(options.artifact, "encode", options.packed),
      cross_(options.artifact, "cross", options.packed) {}

std::vector<float> Speech::source(const float* samples, int64_t count) const {
  if (log_mel_) {
    return (*log_mel_)(samples, count);
  }
  std::vector<float> read(samples, samples + count);
  read.resize(static_cast<size_t>(std::max(count, facts_.sound.fewest_samples)), 0.0F);
  return read;
}

void Speech::read(const std::vector<float>& source, Decoder& decoder) {
  EdgecTensor input = {const_cast<float*>(source.data()), kFloat32, 2, {1, static_cast<int64_t>(source.size())}};
  if (const auto& shape = facts_.sound.features) {
    input = {input.data, kFloat32, 3, {1, shape->mels, shape->frames}};
  }
  decoder.attend_to(cross_(encode_(input).front()));
}

std::vector<int64_t> Speech::prompt(Decoder& decoder) const {
  std::vector<int64_t> tokens = {facts_.start};
  if (!language_.empty()) {
    tokens.push_back(facts_.language(language_));
  } else if (!facts_.languages.empty()) {
    std::vector<int64_t> known;
    for (const auto& language : facts_.languages) {
      known.push_back(language.second);
    }
    tokens.push_back(decoder.likeliest_of(known, tokens));
  }
  tokens.insert(tokens.end(), facts_.after_language.begin(), facts_.after_language.end());
  return tokens;
}

HeardWindow Speech::next(Decoder& decoder) {
  const auto left = static_cast<int64_t>(samples_.size()) - place_;
  const int64_t length = std::min(facts_.sound.window_samples, left);
  const auto rate = static_cast<double>(facts_.sound.sampling_rate);
  HeardWindow heard;
  heard.start_s = static_cast<double>(place_) / rate;
  heard.end_s = static_cast<double>(place_ + length) / rate;
  const Stopwatch features;
  const std::vector<float> input = source(&samples_[static_cast<size_t>(place_)], length);
  heard.features_ms = features.ms();
  const Stopwatch encode;
  read(input, decoder);
  heard.encode_ms = encode.ms();
  const Stopwatch write;
  prompt_ = prompt_.empty() ? prompt(decoder) : prompt_;
  heard.prompt = prompt_;
  heard.tokens = decoder.write(prompt_, new_tokens_, facts_.choice);
  heard.write_ms = write.ms();
  place_ += length;
  return heard;
}

}  // namespace edgec::runner
