// One text held to a structure: which tokens may come next, and how it is closed before its tokens run out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "structure_costs.h"
#include "structure_file.h"

namespace edgec::engine {

// A compiled structure for one vocabulary; it may serve many texts.
struct Structure {
  Structure(const std::string& grammar_path, const std::string& vocabulary_path);

  StructureGrammar grammar;
  TokenBytes tokens;
  std::vector<uint32_t> costs;
};

// The states to go on at, each with those after it; equal stacks have equal numbers. Number 0 is the empty one.
class StructureStacks {
 public:
  StructureStacks() : nodes_{{0, 0, 0}} {}

  uint32_t push(uint32_t stack, uint32_t state, uint32_t state_cost);
  uint32_t below(uint32_t stack) const { return nodes_[stack].below; }
  uint32_t state(uint32_t stack) const { return nodes_[stack].state; }
  // Tokens of one byte from the stack's first state to the end of the text, or kNoEnd.
  uint32_t cost(uint32_t stack) const { return nodes_[stack].cost; }
  size_t size() const { return nodes_.size(); }
  // Forget the stacks made since there were `size`.
  void shrink(size_t size);

 private:
  struct Node {
    uint32_t below;
    uint32_t state;
    uint32_t cost;
  };
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

struct Place {
  uint32_t state;
  uint32_t stack;
  bool operator==(const Place& other) const { return state == other.state && stack == other.stack; }
  bool operator<(const Place& other) const { return state != other.state ? state < other.state : stack < other.stack; }
};
using Places = std::vector<Place>;

// A text of so many tokens or more is never closed: it ends where its tokens do, whole or not.
constexpr int64_t kEndless = INT32_MAX;

class StructuredText {
 public:
  // A text of at most `budget` tokens. The structure must outlive it.
  StructuredText(const Structure& structure, int64_t budget);

  // Set logits of tokens that may not come next to -infinity. Throws Failure where none may come.
  void mask(float* logits, size_t count);
  // Move on by a token that `mask` leaves. Throws Failure for any other.
  void take(uint32_t token);
  // Whether the tokens so far are a whole text.
  bool whole() const { return whole_; }
  // Whether nothing may follow.
  bool ended() const { return ended_; }

 private:
  // The tokens that may come next, one bit each, and the farthest that the end is after one of them.
  struct Allowed {
    std::vector<uint64_t> bits;
    uint32_t farthest = 0;
    size_t count = 0;
  };

  bool advance(const Places& from, uint8_t byte, Places& to);
  void open(const Place& place, Places& seen);
  uint32_t cost(const Places& places) const;
  const Allowed& allowed();
  Allowed search(uint32_t most_cost);
  void look();

  const Structure& structure_;
  StructureStacks stacks_;
  Places places_, opened_;
  std::vector<Places> walked_;
  std::map<Places, Allowed> known_;
  Allowed close_;
  int64_t left_;
  bool whole_ = false, ended_ = false, closing_ = true;
};

}  // namespace edgec::engine
