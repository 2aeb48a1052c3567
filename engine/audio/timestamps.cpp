#include "timestamps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace edgec::runner {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Masks the ids from `begin` to before `end`, which may lie outside the vocabulary.
void forbid(std::vector<float>& logits, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(logits.size());
  const int64_t from = std::clamp<int64_t>(begin, 0, size), to = std::clamp<int64_t>(end, from, size);
  std::fill(logits.begin() + from, logits.begin() + to, kNever);
}

float highest(const float* begin, const float* end) {
  return begin == end ? kNever : *std::max_element(begin, end);
}

// log(sum(exp(logits))); -inf where all are.
double total(const float* begin, const float* end) {
  const double most = highest(begin, end);
  if (!std::isfinite(most)) return most;
  double sum = 0;
  for (const float* logit = begin; logit != end; ++logit) sum += std::exp(*logit - most);
  return most + std::log(sum);
}

}  // namespace

void TimestampRules::apply(std::vector<float>& logits, const std::vector<int64_t>& said) const {
  const auto size = static_cast<int64_t>(logits.size());
  const bool last = !said.empty() && is_stamp(said.back());
  const bool before = said.size() < 2 || is_stamp(said[said.size() - 2]);
  forbid(logits, no_timestamps, no_timestamps + 1);
  if (last && before) {  // a pair is closed: text comes
    forbid(logits, first, size);
  } else if (last) {  // a text is closed: another timestamp opens the next, or the end comes
    forbid(logits, 0, eos);
  }
  const auto stamp = std::find_if(said.rbegin(), said.rend(), [&](int64_t token) { return is_stamp(token); });
  if (stamp != said.rend()) {
    forbid(logits, first, *stamp + (last && !before ? 0 : 1));
  }
  if (said.empty()) {
    forbid(logits, 0, first);
    if (latest_first) forbid(logits, first + *latest_first + 1, size);
  }
  const float* border = logits.data() + std::min(first, size);
  if (total(border, logits.data() + size) > highest(logits.data(), border)) {
    forbid(logits, 0, first);
  }
}

WindowCut cut_window(
    const std::vector<int64_t>& said, const std::optional<TimestampRules>& rules, int64_t length, int64_t step) {
  const double whole = static_cast<double>(length) / static_cast<double>(step);
  if (!rules) return {{{0, whole, said}}, length};
  std::vector<WindowPiece> pieces;
  const auto steps = [&](int64_t token) { return static_cast<double>(token - rules->first); };
  auto begin = said.begin();
  for (auto at = said.begin(); at != said.end(); ++at) {
    const bool ends = at + 1 == said.end() || (rules->is_stamp(*at) && rules->is_stamp(*(at + 1)));
    if (!ends) continue;
    pieces.push_back({steps(*begin), steps(*at), {begin, at + 1}});
    begin = at + 1;
  }
  if (pieces.size() < 2) {
    const auto later = [&](int64_t token) { return token > rules->first; };
    const auto last = std::find_if(said.rbegin(), said.rend(), later);
    return {{{0, last == said.rend() ? whole : steps(*last), said}}, length};
  }
  const bool closed = rules->is_stamp(said.back()) && !rules->is_stamp(said[said.size() - 2]);
  if (closed) return {std::move(pieces), length};
  pieces.pop_back();
  const auto done = static_cast<int64_t>(pieces.back().last) * step;
  // A model that says nothing but 0.00 s would begin the same window forever.
  return {std::move(pieces), done > 0 ? done : length};
}

}  // namespace edgec::runner
