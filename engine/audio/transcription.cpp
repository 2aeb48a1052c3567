#include "transcription.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sound_file.h"

namespace edgec::runner {
namespace {

// Adds the wall time of its life to a sum of milliseconds.
class Timed {
 public:
  explicit Timed(double& ms) : ms_(ms) {}
  ~Timed() {
    ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& ms_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void check_options(const AudioFacts& facts, const TranscriptionRequest& asked) {
  if (!asked.language.empty()) facts.language(asked.language);
  // A model of one language has no tokens for tasks.
  if (!facts.languages.empty() || asked.task != "transcribe") facts.task(asked.task);
  if (static_cast<int64_t>(asked.prompt.size()) > facts.context) {
    throw std::runtime_error(
        std::to_string(asked.prompt.size()) + " tokens do not fit into the context of " +
        std::to_string(facts.context));
  }
}

}  // namespace

AudioFrontend::AudioFrontend(const WindowShape& shape)
    : shape_(shape), log_mel_(shape.features ? std::optional<LogMel>(*shape.features) : std::nullopt) {}

std::vector<float> AudioFrontend::source(const float* samples, int64_t count) const {
  if (log_mel_) {
    return (*log_mel_)(samples, count);
  }
  std::vector<float> read(samples, samples + count);
  read.resize(static_cast<size_t>(std::max(count, shape_.fewest_samples)), 0.0F);
  return read;
}

std::vector<int64_t> AudioFrontend::sizes(size_t values) const {
  const auto count = static_cast<int64_t>(values);
  const auto& made = shape_.features;
  const int64_t fewest = made ? made->mels * made->frames : shape_.fewest_samples;
  if (count < fewest || count > (made ? fewest : shape_.window_samples)) {
    throw std::invalid_argument("the source has another size than the encoder reads");
  }
  return made ? std::vector<int64_t>{1, made->mels, made->frames} : std::vector<int64_t>{1, count};
}

Transcription::Transcription(
    const AudioFacts& facts, const AudioFrontend& frontend, TranscriptionModel& model, std::vector<float> samples,
    TranscriptionRequest asked)
    : facts_(facts),
      frontend_(frontend),
      model_(model),
      samples_(std::move(samples)),
      count_(static_cast<int64_t>(samples_.size())),
      asked_(std::move(asked)),
      stamps_(facts.timestamps(asked_.timestamps)),
      prompt_(asked_.prompt) {
  check_options(facts, asked_);
}

bool Transcription::step() {
  if (writing_) {
    write_token();
    return true;
  }
  if (place_ >= count_) {
    std::vector<float>().swap(samples_);  // An hour of them is 230 MB, and the result may be kept.
    return false;
  }
  read_window();
  return true;
}

std::optional<TranscriptSegment> Transcription::take() {
  if (certain_.empty()) return std::nullopt;
  TranscriptSegment segment = std::move(certain_.front());
  certain_.pop_front();
  return segment;
}

int64_t Transcription::window_samples() const {
  return std::min(facts_.sound.window_samples, count_ - place_);
}

void Transcription::read_window() {
  std::vector<float> source;
  {
    const Timed timed(times_.features_ms);
    source = frontend_.source(&samples_[static_cast<size_t>(place_)], window_samples());
  }
  {
    const Timed timed(times_.encode_ms);
    model_.read(source.data(), frontend_.sizes(source.size()));
  }
  const Timed timed(times_.write_ms);
  if (prompt_.empty()) prompt_ = first_tokens();
  said_.clear();
  logits_ = model_.feed(prompt_.data(), static_cast<int64_t>(prompt_.size()), 0);
  writing_ = true;
}

std::vector<int64_t> Transcription::first_tokens() {
  std::vector<int64_t> tokens = {facts_.start};
  if (!facts_.languages.empty()) {
    tokens.push_back(language_token(facts_.start));
    tokens.push_back(facts_.task(asked_.task));
  }
  if (facts_.no_timestamps && !stamps_) tokens.push_back(*facts_.no_timestamps);
  if (static_cast<int64_t>(tokens.size()) > facts_.context) {
    throw std::runtime_error("the context does not even hold the decoder's first tokens");
  }
  return tokens;
}

int64_t Transcription::language_token(int64_t start) {
  if (!asked_.language.empty()) {
    const auto& [name, token] = facts_.language(asked_.language);
    language_ = name;
    return token;
  }
  const TokenLogits logits = model_.feed(&start, 1, 0);
  const auto logit = [&](const NamedTokens::value_type& language) {
    return language.second < logits.vocabulary ? logits.data[language.second] : -std::numeric_limits<float>::infinity();
  };
  const auto likeliest = std::max_element(
      facts_.languages.begin(), facts_.languages.end(),
      [&](const auto& a, const auto& b) { return logit(a) < logit(b); });
  language_ = likeliest->first;
  return likeliest->second;
}

void Transcription::write_token() {
  const Timed timed(times_.write_ms);
  std::vector<float> allowed = facts_.choice.masked(logits_.data, logits_.vocabulary, said_.empty());
  if (stamps_) stamps_->apply(allowed, said_);
  const int64_t token = std::max_element(allowed.begin(), allowed.end()) - allowed.begin();
  const auto position = static_cast<int64_t>(prompt_.size() + said_.size());
  const bool ends = facts_.choice.ends(token);
  if (!ends) said_.push_back(token);
  if (ends || static_cast<int64_t>(said_.size()) == asked_.new_tokens || position >= facts_.context) {
    end_window();
  } else {
    logits_ = model_.feed(&said_.back(), 1, position);
  }
}

void Transcription::end_window() {
  const int64_t step = facts_.sound.step_samples;
  WindowCut cut = cut_window(said_, stamps_, window_samples(), step);
  for (WindowPiece& piece : cut.pieces) {
    const auto time = [&](double at) { return seconds(static_cast<double>(place_) + at * static_cast<double>(step)); };
    certain_.push_back({time(piece.first), time(piece.last), std::move(piece.tokens)});
  }
  place_ += cut.samples;
  writing_ = false;
}

}  // namespace edgec::runner
