// The files of a compiled structure: an automaton over bytes with calls, and the bytes of a vocabulary's tokens.
// Bundles are untrusted: every number is checked before it is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace edgec::engine {

struct StructureEdge {
  uint8_t low;
  uint8_t high;
  uint32_t target;
};

// Follow `callee` to a final state, then go on at `next`.
struct StructureCall {
  uint32_t callee;
  uint32_t next;
};

// States by number; a text begins at state 0. exporter/schemas/pushdown.py describes the file.
class StructureGrammar {
 public:
  // Throws Failure where the file cannot be read or is not intact.
  explicit StructureGrammar(const std::string& path);

  size_t size() const { return final_.size(); }
  bool final(uint32_t state) const { return final_[state] != 0; }
  // A final state at which nothing begins: going on there is going on at its caller's.
  bool ends(uint32_t state) const { return final(state) && edge_begin(state) == edge_ends_[state] && call_count(state) == 0; }
  const StructureEdge* edges(uint32_t state) const { return edges_.data() + edge_begin(state); }
  size_t edge_count(uint32_t state) const { return edge_ends_[state] - edge_begin(state); }
  const StructureCall* calls(uint32_t state) const { return calls_.data() + call_begin(state); }
  size_t call_count(uint32_t state) const { return call_ends_[state] - call_begin(state); }

 private:
  size_t edge_begin(uint32_t state) const { return state == 0 ? 0 : edge_ends_[state - 1]; }
  size_t call_begin(uint32_t state) const { return state == 0 ? 0 : call_ends_[state - 1]; }

  std::vector<uint32_t> edge_ends_, call_ends_;
  std::vector<uint8_t> final_;
  std::vector<StructureEdge> edges_;
  std::vector<StructureCall> calls_;
};

// What each token writes; tokens that write nothing never stand inside a text. bundle/schemas.py describes the file.
class TokenBytes {
 public:
  // Throws Failure where the file cannot be read or is not intact.
  explicit TokenBytes(const std::string& path);

  size_t size() const { return ends_.size(); }
  std::string_view text(uint32_t token) const;
  const std::vector<uint32_t>& eos() const { return eos_; }
  bool is_eos(uint32_t token) const;
  // Whether one token writes this byte alone.
  bool has_byte(uint8_t byte) const { return single_[byte] != 0; }
  // Tokens that write something, by their bytes; `shared` says how many bytes each has in common with the one before.
  const std::vector<uint32_t>& sorted() const { return sorted_; }
  const std::vector<uint32_t>& shared() const { return shared_; }

 private:
  void sort();

  std::string bytes_;
  std::vector<uint32_t> ends_, eos_, sorted_, shared_;
  uint8_t single_[256] = {};
};

}  // namespace edgec::engine
