#include "structured_text.h"

#include <algorithm>
#include <limits>

#include "failure.h"

namespace edgec::engine {
namespace {

constexpr size_t kMostPlaces = 1u << 14, kMostStacks = 1u << 22, kMostKnown = 64;
constexpr unsigned kWordBits = 64;

uint32_t sum(uint32_t one, uint32_t other) {
  return one >= kNoEnd - other ? kNoEnd : one + other;
}

[[noreturn]] void too_complex() {
  throw Failure(EDGEC_REFUSED, "the text became too complex for its structure");
}

}  // namespace

Structure::Structure(const std::string& grammar_path, const std::string& vocabulary_path)
    : grammar(grammar_path), tokens(vocabulary_path), costs(costs_of(grammar, tokens)) {}

uint32_t StructureStacks::push(uint32_t stack, uint32_t state, uint32_t state_cost) {
  const auto [found, fresh] =
      numbers_.try_emplace(static_cast<uint64_t>(stack) << 32 | state, static_cast<uint32_t>(nodes_.size()));
  if (fresh) {
    if (nodes_.size() >= kMostStacks) too_complex();
    nodes_.push_back({stack, state, sum(state_cost, cost(stack))});
  }
  return found->second;
}

void StructureStacks::shrink(size_t size) {
  while (nodes_.size() > size) {
    numbers_.erase(static_cast<uint64_t>(nodes_.back().below) << 32 | nodes_.back().state);
    nodes_.pop_back();
  }
}

StructuredText::StructuredText(const Structure& structure, int64_t budget) : structure_(structure), left_(budget) {
  places_ = {{0, 0}};
  closing_ = left_ < kEndless && static_cast<int64_t>(cost(places_)) <= left_;
  look();
}

// Add a place and all that can be reached from it before a byte is read.
void StructuredText::open(const Place& place, Places& seen) {
  const StructureGrammar& grammar = structure_.grammar;
  const auto add = [&](Place one) {
    if (std::find(seen.begin(), seen.end(), one) == seen.end()) seen.push_back(one);
  };
  size_t next = seen.size();
  add(place);
  for (; next < seen.size(); ++next) {
    if (seen.size() > kMostPlaces) too_complex();
    const Place here = seen[next];
    if (grammar.final(here.state) && here.stack != 0) {
      add({stacks_.state(here.stack), stacks_.below(here.stack)});
    }
    for (size_t i = 0; i < grammar.call_count(here.state); ++i) {
      const StructureCall& call = grammar.calls(here.state)[i];
      const bool last = grammar.ends(call.next);
      const uint32_t cost = structure_.costs[call.next];
      add({call.callee, last ? here.stack : stacks_.push(here.stack, call.next, cost)});
    }
  }
}

// The places after a byte; false where there are none.
bool StructuredText::advance(const Places& from, uint8_t byte, Places& to) {
  to.clear();
  opened_.clear();
  for (const Place& place : from) {
    open(place, opened_);
  }
  for (const Place& place : opened_) {
    const StructureEdge* edges = structure_.grammar.edges(place.state);
    for (size_t i = structure_.grammar.edge_count(place.state); i-- > 0;) {
      if (edges[i].low <= byte && byte <= edges[i].high) {
        to.push_back({edges[i].target, place.stack});
      }
    }
  }
  if (to.size() > 1) {
    std::sort(to.begin(), to.end());
    to.erase(std::unique(to.begin(), to.end()), to.end());
  }
  return !to.empty();
}

uint32_t StructuredText::cost(const Places& places) const {
  uint32_t least = kNoEnd;
  for (const Place& place : places) {
    least = std::min(least, sum(structure_.costs[place.state], stacks_.cost(place.stack)));
  }
  return least;
}

// Tokens are tried in the order of their bytes: what two have in common is walked once.
StructuredText::Allowed StructuredText::search(uint32_t most_cost) {
  const TokenBytes& tokens = structure_.tokens;
  Allowed made{std::vector<uint64_t>((tokens.size() + kWordBits - 1) / kWordBits), 0, 0};
  const size_t stacks = stacks_.size();
  size_t walked = 0;  // Bytes of the last walk that led somewhere.
  walked_.resize(std::max<size_t>(walked_.size(), 1));
  walked_[0] = places_;
  for (size_t place = 0; place < tokens.sorted().size(); ++place) {
    const size_t shared = tokens.shared()[place];
    if (shared > walked) continue;
    const uint32_t token = tokens.sorted()[place];
    const std::string_view text = tokens.text(token);
    walked_.resize(std::max(walked_.size(), text.size() + 1));
    for (walked = shared; walked < text.size(); ++walked) {
      if (!advance(walked_[walked], static_cast<uint8_t>(text[walked]), walked_[walked + 1])) break;
    }
    const uint32_t after = walked == text.size() ? cost(walked_[walked]) : kNoEnd;
    if (walked == text.size() && (most_cost == kNoEnd || after <= most_cost)) {
      made.bits[token / kWordBits] |= uint64_t{1} << token % kWordBits;
      made.farthest = std::max(made.farthest, after);
      ++made.count;
    }
  }
  stacks_.shrink(stacks);
  return made;
}

const StructuredText::Allowed& StructuredText::allowed() {
  auto found = known_.find(places_);
  if (found == known_.end()) {
    if (known_.size() >= kMostKnown) known_.clear();
    found = known_.emplace(places_, search(kNoEnd)).first;
  }
  const auto after = static_cast<uint32_t>(std::clamp<int64_t>(left_ - 1, 0, kNoEnd - 1));
  if (!closing_ || found->second.farthest <= after) return found->second;
  close_ = search(after);
  return close_.count > 0 || whole_ ? close_ : found->second;
}

void StructuredText::mask(float* logits, size_t count) {
  const bool more = !ended_;
  const Allowed none{};
  const Allowed& next = more ? allowed() : none;
  bool any = false;
  for (size_t token = 0; token < count; ++token) {
    const size_t word = token / kWordBits;
    const bool inside = word < next.bits.size() && (next.bits[word] >> token % kWordBits & 1) != 0;
    const bool end = whole_ && structure_.tokens.is_eos(static_cast<uint32_t>(token));
    any = any || inside || end;
    if (!inside && !end) logits[token] = -std::numeric_limits<float>::infinity();
  }
  if (!any) throw Failure(EDGEC_FAILED, "the text came to a place that no token of the vocabulary continues");
}

void StructuredText::take(uint32_t token) {
  if (ended_) throw Failure(EDGEC_REFUSED, "the text has ended");
  if (structure_.tokens.is_eos(token)) {
    if (!whole_) throw Failure(EDGEC_REFUSED, "the text may not end here");
    ended_ = true;
    return;
  }
  const bool known = token < structure_.tokens.size() && !structure_.tokens.text(token).empty();
  Places next, after = places_;
  for (const char byte : known ? structure_.tokens.text(token) : std::string_view()) {
    if (!advance(after, static_cast<uint8_t>(byte), next)) after.clear();
    if (after.empty()) break;
    after.swap(next);
  }
  if (!known || after.empty()) throw Failure(EDGEC_REFUSED, "the structure does not allow this token next");
  places_ = after;
  --left_;
  look();
}

// See whether the text may end here, and whether it must.
void StructuredText::look() {
  opened_.clear();
  for (const Place& place : places_) {
    open(place, opened_);
  }
  bool more = false;
  whole_ = false;
  for (const Place& place : opened_) {
    whole_ = whole_ || (structure_.grammar.final(place.state) && place.stack == 0);
    more = more || structure_.grammar.edge_count(place.state) > 0;
  }
  ended_ = whole_ && (!more || structure_.tokens.eos().empty());
}

}  // namespace edgec::engine
