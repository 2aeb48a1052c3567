#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "core/plain_failure.h"
#include "distribution.h"

namespace edgec::text {
namespace {

// Beyond these, logits of float32 divided or multiplied by a number become infinite or nothing.
constexpr double kFewest = 1e-12, kMost = 1e12;
constexpr double kLargestPenalty = 2, kLargestBias = 100;
constexpr float kNever = -std::numeric_limits<float>::infinity();

void require_option(bool fine, const char* name) {
  if (!fine) throw engine::Failure(EDGEC_REFUSED, std::string(name) + " is out of its range");
}

bool within(double value, double least, double most) { return value >= least && value <= most; }

Sampling checked(Sampling asked) {
  require_option(asked.temperature == 0 || within(asked.temperature, kFewest, kMost), "temperature");
  require_option(asked.top_k >= 0, "top_k");
  require_option(asked.top_p > 0 && asked.top_p <= 1, "top_p");
  require_option(within(asked.min_p, 0, 1), "min_p");
  require_option(within(asked.repetition_penalty, kFewest, kMost), "repetition_penalty");
  require_option(within(asked.presence_penalty, -kLargestPenalty, kLargestPenalty), "presence_penalty");
  require_option(within(asked.frequency_penalty, -kLargestPenalty, kLargestPenalty), "frequency_penalty");
  for (const auto& [token, bias] : asked.biases) {
    require_option(within(bias, -kLargestBias, kLargestBias), "a bias");
  }
  return asked;
}

uint64_t system_seed() {
  std::random_device source;
  return static_cast<uint64_t>(source()) << 32 | source();
}

// What is compared below must have an order, and a distribution a largest number.
void check_finite(const std::vector<float>& scores) {
  float most = kNever;
  for (const float score : scores) {
    if (std::isnan(score)) throw engine::Failure(EDGEC_FAILED, "a logit is not a number");
    most = std::max(most, score);
  }
  if (!std::isfinite(most)) throw engine::Failure(EDGEC_FAILED, "no token may come next, or one is infinitely likely");
}

bool is_in(int64_t token, const std::vector<float>& scores) {
  return token >= 0 && static_cast<uint64_t>(token) < scores.size();
}

}  // namespace

Sampler::Sampler(Sampling sampling, const int64_t* prompt, size_t count)
    : sampling_(checked(std::move(sampling))), draws_(sampling_.seed ? *sampling_.seed : system_seed()) {
  if (sampling_.repetition_penalty != 1) seen_.insert(prompt, prompt + count);
}

void Sampler::take(int64_t token) {
  if (sampling_.repetition_penalty != 1) seen_.insert(token);
  if (sampling_.presence_penalty != 0 || sampling_.frequency_penalty != 0) ++answer_[token];
}

void Sampler::penalise(std::vector<float>& scores) const {
  const auto penalty = static_cast<float>(sampling_.repetition_penalty);
  for (const int64_t token : seen_) {
    if (!is_in(token, scores)) continue;
    float& score = scores[static_cast<size_t>(token)];
    score = score < 0 ? score * penalty : score / penalty;
  }
  for (const auto& [token, times] : answer_) {
    if (!is_in(token, scores)) continue;
    const double each = sampling_.frequency_penalty * static_cast<double>(times);
    scores[static_cast<size_t>(token)] -= static_cast<float>(sampling_.presence_penalty + each);
  }
  for (const auto& [token, bias] : sampling_.biases) {
    if (!is_in(token, scores)) continue;
    float& score = scores[static_cast<size_t>(token)];
    score = bias == -kLargestBias ? kNever : score + static_cast<float>(bias);
  }
}

std::vector<float> Sampler::scores(const float* logits, size_t count) const {
  if (count == 0) throw engine::Failure(EDGEC_REFUSED, "there are no logits");
  std::vector<float> scores(logits, logits + count);
  penalise(scores);
  const auto temperature = static_cast<float>(sampling_.temperature == 0 ? 1 : sampling_.temperature);
  for (float& score : scores) score /= temperature;
  check_finite(scores);
  if (sampling_.temperature == 0) return scores;
  keep_top_k(scores, sampling_.top_k);
  keep_top_p(scores, sampling_.top_p);
  keep_min_p(scores, sampling_.min_p);
  return scores;
}

int64_t Sampler::choose(const float* logits, size_t count) {
  const std::vector<float> scores = this->scores(logits, count);
  if (sampling_.temperature == 0) return std::max_element(scores.begin(), scores.end()) - scores.begin();
  return draw(probabilities(scores), draws_.next());
}

}  // namespace edgec::text
