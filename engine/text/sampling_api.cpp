#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/plain_failure.h"
#include "core/stated.h"
#include "edgec/text.h"
#include "sampler.h"

using edgec::engine::Failure;
using edgec::runner::require;
using edgec::runner::stated;
using edgec::text::Sampler;
using edgec::text::Sampling;

struct EdgecSampler {
  Sampler sampler;
};

namespace {

Sampling sampling_of(const EdgecSampling& asked) {
  Sampling sampling{
      asked.temperature, asked.top_k, asked.top_p, asked.min_p, asked.repetition_penalty, asked.presence_penalty,
      asked.frequency_penalty, {}, {}};
  for (size_t place = 0; place < asked.bias_count; ++place) {
    require(asked.biased, "the tokens with a bias");
    require(asked.biases, "the biases");
    sampling.biases.emplace_back(asked.biased[place], asked.biases[place]);
  }
  if (asked.seeded != 0) sampling.seed = asked.seed;
  return sampling;
}

void require_logits(const void* sampler, const float* logits, size_t count) {
  require(sampler, "the sampler");
  require(count == 0 ? sampler : logits, "the logits");
}

}  // namespace

EdgecSampler* edgec_sampler_open(
    const EdgecSampling* sampling, const int64_t* prompt, size_t count, char* error, size_t capacity) {
  std::unique_ptr<EdgecSampler> made;
  const auto open = [&] {
    require(sampling, "the options");
    require(count == 0 ? static_cast<const void*>(sampling) : prompt, "the prompt");
    made.reset(new EdgecSampler{Sampler(sampling_of(*sampling), prompt, count)});
  };
  stated<Failure>(open, error, capacity);
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
  return stated<Failure>(choose, error, capacity);
}

int edgec_sampler_take(EdgecSampler* sampler, int64_t token, char* error, size_t capacity) {
  const auto take = [&] {
    require(sampler, "the sampler");
    sampler->sampler.take(token);
  };
  return stated<Failure>(take, error, capacity);
}

int edgec_sampler_scores(
    const EdgecSampler* sampler, const float* logits, size_t count, float* scores, char* error, size_t capacity) {
  const auto write = [&] {
    require_logits(sampler, logits, count);
    require(count == 0 ? static_cast<const void*>(sampler) : scores, "the scores");
    const std::vector<float> made = sampler->sampler.scores(logits, count);
    std::copy(made.begin(), made.end(), scores);
  };
  return stated<Failure>(write, error, capacity);
}
