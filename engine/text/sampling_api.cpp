#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "edgec/text.h"
#include "sampler.h"
#include "text_border.h"

using edgec::text::Sampler;
using edgec::text::Sampling;
using edgec::text::guarded;
using edgec::text::require;
using edgec::text::require_array;

struct EdgecSampler {
  Sampler sampler;
};

namespace {

Sampling sampling_of(const EdgecSampling& asked) {
  Sampling sampling{
      asked.temperature, asked.top_k, asked.top_p, asked.min_p, asked.repetition_penalty, asked.presence_penalty,
      asked.frequency_penalty, {}, {}};
  require_array(asked.biased, asked.bias_count, "the tokens with a bias");
  require_array(asked.biases, asked.bias_count, "the biases");
  for (size_t place = 0; place < asked.bias_count; ++place) {
    sampling.biases.emplace_back(asked.biased[place], asked.biases[place]);
  }
  if (asked.seeded != 0) sampling.seed = asked.seed;
  return sampling;
}

void require_logits(const void* sampler, const float* logits, size_t count) {
  require(sampler, "the sampler");
  require_array(logits, count, "the logits");
}

}  // namespace

EdgecSampler* edgec_sampler_open(
    const EdgecSampling* sampling, const int64_t* prompt, size_t count, char* error, size_t capacity) {
  std::unique_ptr<EdgecSampler> made;
  const auto open = [&] {
    require(sampling, "the options");
    require_array(prompt, count, "the prompt");
    made.reset(new EdgecSampler{Sampler(sampling_of(*sampling), prompt, count)});
  };
  guarded(open, error, capacity);
  return made.release();
}

void edgec_sampler_close(EdgecSampler* sampler) { delete sampler; }

int edgec_sampler_choose(
    EdgecSampler* sampler, const float* logits, size_t count, int64_t* token, char* error, size_t capacity) {
  const auto choose = [&] {
    require_logits(sampler, logits, count);
    require(token, "the token");
    *token = sampler->sampler.choose(logits, count);
  };
  return guarded(choose, error, capacity);
}

int edgec_sampler_take(EdgecSampler* sampler, int64_t token, char* error, size_t capacity) {
  const auto take = [&] {
    require(sampler, "the sampler");
    sampler->sampler.take(token);
  };
  return guarded(take, error, capacity);
}

int edgec_sampler_scores(
    const EdgecSampler* sampler, const float* logits, size_t count, float* scores, char* error, size_t capacity) {
  const auto write = [&] {
    require_logits(sampler, logits, count);
    require_array(scores, count, "the scores");
    const std::vector<float> made = sampler->sampler.scores(logits, count);
    std::copy(made.begin(), made.end(), scores);
  };
  return guarded(write, error, capacity);
}
