#include "structure_costs.h"

#include <functional>
#include <queue>
#include <utility>

namespace edgec::engine {
namespace {

// A state, with the other state that a call there needs too; for an edge the state itself.
struct User {
  uint32_t state;
  uint32_t other;
  bool is_edge;
};

// By state: who can end once this state can. Lists lie one after the other.
struct Users {
  std::vector<uint32_t> ends;
  std::vector<User> users;
};

bool has_token(const StructureEdge& edge, const TokenBytes& tokens) {
  for (unsigned byte = edge.low; byte <= edge.high; ++byte) {
    if (tokens.has_byte(static_cast<uint8_t>(byte))) return true;
  }
  return false;
}

template <typename Visit>
void each_use(const StructureGrammar& grammar, const TokenBytes& tokens, Visit&& visit) {
  for (uint32_t state = 0; state < grammar.size(); ++state) {
    for (size_t i = 0; i < grammar.edge_count(state); ++i) {
      const StructureEdge& edge = grammar.edges(state)[i];
      if (has_token(edge, tokens)) visit(edge.target, User{state, state, true});
    }
    for (size_t i = 0; i < grammar.call_count(state); ++i) {
      const StructureCall& call = grammar.calls(state)[i];
      visit(call.callee, User{state, call.next, false});
      if (call.next != call.callee) visit(call.next, User{state, call.callee, false});
    }
  }
}

Users users_of(const StructureGrammar& grammar, const TokenBytes& tokens) {
  Users made{std::vector<uint32_t>(grammar.size() + 1), {}};
  each_use(grammar, tokens, [&](uint32_t used, const User&) { ++made.ends[used + 1]; });
  for (size_t state = 0; state < grammar.size(); ++state) {
    made.ends[state + 1] += made.ends[state];
  }
  made.users.resize(made.ends.back());
  std::vector<uint32_t> next(made.ends.begin(), made.ends.end() - 1);
  each_use(grammar, tokens, [&](uint32_t used, const User& user) { made.users[next[used]++] = user; });
  return made;
}

uint32_t sum(uint32_t one, uint32_t other) {
  return one >= kNoEnd - 1 - other ? kNoEnd - 1 : one + other;
}

}  // namespace

std::vector<uint32_t> costs_of(const StructureGrammar& grammar, const TokenBytes& tokens) {
  const Users uses = users_of(grammar, tokens);
  std::vector<uint32_t> costs(grammar.size(), kNoEnd);
  std::vector<uint8_t> settled(grammar.size());
  using Entry = std::pair<uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> pending;
  const auto improve = [&](uint32_t state, uint32_t cost) {
    if (cost < costs[state]) pending.emplace(costs[state] = cost, state);
  };
  for (uint32_t state = 0; state < grammar.size(); ++state) {
    if (grammar.final(state)) improve(state, 0);
  }
  while (!pending.empty()) {
    const uint32_t state = pending.top().second;
    pending.pop();
    if (settled[state]) continue;
    settled[state] = 1;
    for (uint32_t i = uses.ends[state]; i < uses.ends[state + 1]; ++i) {
      const User& user = uses.users[i];
      if (user.is_edge) {
        improve(user.state, sum(costs[state], 1));
      } else if (settled[user.other]) {
        improve(user.state, sum(costs[state], costs[user.other]));
      }
    }
  }
  return costs;
}

}  // namespace edgec::engine
