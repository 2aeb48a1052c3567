// How far the end of a structure is from each of its states.
#pragma once

#include <cstdint>
#include <vector>

#include "structure_file.h"

namespace edgec::engine {

// No end is in reach by tokens of one byte.
constexpr uint32_t kNoEnd = UINT32_MAX;

// For each state the fewest tokens of one byte to a final state of its own, or kNoEnd (Knuth 1977, a generalisation of
// Dijkstra's algorithm to grammars).
std::vector<uint32_t> costs_of(const StructureGrammar& grammar, const TokenBytes& tokens);

}  // namespace edgec::engine
