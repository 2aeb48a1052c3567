#include "thinking_rule.h"

#include <algorithm>
#include <utility>

#include "core/plain_failure.h"
#include "utf8.h"

namespace edgec::text {

ThinkingRule::ThinkingRule(const Notations& notations, Decode decode, Phase phase, int64_t budget)
    : notation_(notations.thinking ? &*notations.thinking : nullptr),
      decode_(std::move(decode)),
      phase_(phase),
      budget_(budget) {
  if (phase != Phase::kAnswer && notation_ == nullptr) {
    throw engine::Failure(EDGEC_REFUSED, "the message has no notation of reasoning");
  }
  if (budget >= 0 && notation_ != nullptr && notation_->close_tokens.empty()) {
    throw engine::Failure(EDGEC_REFUSED, "no tokens write the markers of reasoning");
  }
  if (phase == Phase::kThink) think();
}

ThinkingRule::Next ThinkingRule::next() const {
  if (!forced_.empty()) return {forced_.back(), -1, false, false};
  if (phase_ == Phase::kThink) return {-1, -1, true, false};
  if (phase_ == Phase::kAnswer) return {-1, -1, false, true};
  return {-1, onward(), false, fits_};
}

// The token that continues the opening marker; -1: none does.
int64_t ThinkingRule::onward() const {
  const std::vector<int64_t>& path = notation_->open_tokens;
  const bool follows = run_.size() < path.size() && std::equal(run_.begin(), run_.end(), path.begin());
  return follows ? path[run_.size()] : -1;
}

bool ThinkingRule::gives(int64_t token, bool allowed) const {
  if (!forced_.empty() || phase_ == Phase::kThink) return false;
  return phase_ == Phase::kAnswer || (fits_ && (token != onward() || allowed));
}

bool ThinkingRule::take(int64_t token, bool given) {
  if (!forced_.empty()) {
    forced_.pop_back();
    return forced_.empty() && begin_answer();
  }
  if (phase_ == Phase::kThink) return take_thought(token);
  return phase_ == Phase::kStart && take_first(token, given);
}

// Take a token before it is known whether the message begins with reasoning.
bool ThinkingRule::take_first(int64_t token, bool given) {
  fits_ = given;
  run_.push_back(token);
  const std::string written_so_far = written();
  const std::string_view text = without_leading_space(written_so_far);
  if (begins_with(text, notation_->open)) {
    think();
  } else if (!begins_with(notation_->open, text)) {
    phase_ = Phase::kAnswer;
    run_.clear();
  } else if (text.empty()) {
    run_.clear();
  }
  return false;
}

bool ThinkingRule::take_thought(int64_t token) {
  ++thought_;
  run_.push_back(token);
  const size_t kept = count_characters(notation_->close) + 1;
  if (run_.size() > kept) run_.erase(run_.begin());
  if (written().find(notation_->close) != std::string::npos) return begin_answer();
  close_in_time();
  return false;
}

void ThinkingRule::think() {
  phase_ = Phase::kThink;
  run_.clear();
  close_in_time();
}

void ThinkingRule::close_in_time() {
  if (budget_ >= 0 && thought_ >= budget_) {
    forced_.assign(notation_->close_tokens.rbegin(), notation_->close_tokens.rend());
  }
}

bool ThinkingRule::begin_answer() {
  phase_ = Phase::kAnswer;
  run_.clear();
  fits_ = true;
  return true;
}

}  // namespace edgec::text
