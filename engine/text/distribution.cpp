#include "distribution.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace edgec::text {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
// Of 152,000 tokens; most distributions of language models reach 0.95 with fewer.
constexpr size_t kSortedAtFirst = 1024, kGrowth = 16;
constexpr size_t kLanes = 8, kBlock = 128;

// NumPy's pairwise sum, whose rounding decides where a set of tokens ends.
double pairwise_sum(const double* values, size_t count) {
  if (count < kLanes) return std::accumulate(values, values + count, -0.0);
  if (count > kBlock) {
    const size_t half = count / 2 - count / 2 % kLanes;
    return pairwise_sum(values, half) + pairwise_sum(values + half, count - half);
  }
  double lanes[kLanes];
  std::copy(values, values + kLanes, lanes);
  size_t at = kLanes;
  for (; at < count - count % kLanes; at += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[at + lane];
  }
  const double sum =
      ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  return std::accumulate(values + at, values + count, sum);
}

// The k-th largest value.
float kth_largest(std::vector<float> scores, size_t k) {
  const auto place = scores.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(scores.begin(), place, scores.end(), std::greater<>());
  return *place;
}

double sum_below(const std::vector<float>& scores, const std::vector<double>& likely, float least) {
  std::vector<double> below;
  for (size_t token = 0; token < scores.size(); ++token) {
    if (scores[token] < least) below.push_back(likely[token]);
  }
  return pairwise_sum(below.data(), below.size());
}

// The least score of tokens that reach a probability together, and in `rest` what the others have.
float reaching(const std::vector<float>& scores, const std::vector<double>& likely, double spare, double& rest) {
  for (size_t count = std::min(kSortedAtFirst, scores.size());; count = std::min(kGrowth * count, scores.size())) {
    const float least = kth_largest(scores, count);
    rest = sum_below(scores, likely, least);
    if (rest <= spare || count == scores.size()) return least;
  }
}

}  // namespace

std::vector<double> probabilities(const std::vector<float>& scores) {
  const double most = *std::max_element(scores.begin(), scores.end());
  std::vector<double> likely(scores.size());
  for (size_t token = 0; token < scores.size(); ++token) likely[token] = std::exp(scores[token] - most);
  const double sum = pairwise_sum(likely.data(), likely.size());
  for (double& each : likely) each /= sum;
  return likely;
}

void keep_top_k(std::vector<float>& scores, int64_t k) {
  if (k <= 0 || static_cast<uint64_t>(k) >= scores.size()) return;
  const float least = kth_largest(scores, static_cast<size_t>(k));
  for (float& score : scores) score = score < least ? kNever : score;
}

void keep_top_p(std::vector<float>& scores, double p) {
  if (p >= 1) return;
  const std::vector<double> likely = probabilities(scores);
  double rest = 0;
  const float least = reaching(scores, likely, 1 - p, rest);
  std::vector<size_t> head;
  for (size_t token = 0; token < scores.size(); ++token) {
    if (scores[token] >= least && likely[token] > 0) head.push_back(token);
  }
  std::stable_sort(head.begin(), head.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  std::vector<float> kept(scores.size(), kNever);
  double sum = 0;
  for (size_t place = 0; place < head.size(); ++place) {
    sum += likely[head[place]];
    if (rest + sum > 1 - p || place + 1 == head.size()) kept[head[place]] = scores[head[place]];
  }
  scores = std::move(kept);
}

void keep_min_p(std::vector<float>& scores, double share) {
  if (share <= 0) return;
  const std::vector<double> likely = probabilities(scores);
  const double least = share * *std::max_element(likely.begin(), likely.end());
  for (size_t token = 0; token < scores.size(); ++token) {
    if (likely[token] < least) scores[token] = kNever;
  }
}

int64_t draw(const std::vector<double>& likely, double place) {
  std::vector<double> sums(likely.size());
  std::partial_sum(likely.begin(), likely.end(), sums.begin());
  const double all = sums.back();
  for (double& sum : sums) sum /= all;
  return std::upper_bound(sums.begin(), sums.end(), place) - sums.begin();
}

}  // namespace edgec::text
