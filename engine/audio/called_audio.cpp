// A bundle that takes audio whose artifact the caller executes: an app where the system does, as Core ML.
#include <memory>
#include <stdexcept>
#include <vector>

#include "audio.h"

namespace {

class CalledModel final : public edgec::runner::TranscriptionModel {
 public:
  explicit CalledModel(const EdgecAudioCalls& calls) : calls_(calls) {}

  void read(const float* source, const std::vector<int64_t>& sizes) override {
    size_t count = 1;
    for (const int64_t size : sizes) count *= static_cast<size_t>(size);
    if (calls_.read(calls_.context, source, count) != 0) throw std::runtime_error("the encoder failed");
  }

  edgec::runner::TokenLogits feed(const int64_t* tokens, int64_t count, int64_t start) override {
    if (count < 1) throw std::runtime_error("there are no tokens");
    const float* logits = nullptr;
    size_t vocabulary = 0;
    const int failed =
        calls_.feed(calls_.context, tokens, static_cast<size_t>(count), start, &logits, &vocabulary);
    if (failed != 0) throw std::runtime_error("the decoder failed");
    if (logits == nullptr || vocabulary == 0) throw std::runtime_error("the decoder gave no logits");
    return {logits, static_cast<int64_t>(vocabulary)};
  }

 private:
  EdgecAudioCalls calls_;
};

}  // namespace

EdgecAudio* edgec_audio_open_called(
    const char* bundle, const EdgecAudioCalls* calls, char* error, size_t capacity) {
  const auto make = [&] {
    edgec::engine::require(calls, "what executes the artifact");
    if (calls->read == nullptr || calls->feed == nullptr) throw std::invalid_argument("a function is null");
    return std::make_unique<CalledModel>(*calls);
  };
  return edgec::runner::opened_audio(bundle, make, error, capacity);
}
