// Whose tokens a call holds. A call of several sessions (edgec_model_step in edgec/engine.h) runs through the program of
// one of them: layers do not ask whose a row is, and operators with a state compute each sequence's rows over its own state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgec {

// One session's tokens in a call, and those whose logits are wanted: layers that serve no later token run for these
// alone (passes/prefill/prefill_skip.py).
struct Sequence {
  int64_t first_token;
  int64_t tokens;
  int64_t first_row;
  int64_t rows;
  ptrdiff_t moved;  // bytes from the executing session's state to the sequence's
};

struct Sequences {
  std::vector<Sequence> all;
  int64_t tokens;
  int64_t rows;
  const uint8_t* state;  // the executing session's
  size_t state_bytes;

  // Whether every sequence has its own copy of what lies there.
  bool holds(const void* data, size_t bytes) const {
    const auto* begin = static_cast<const uint8_t*>(data);
    return begin >= state && bytes <= state_bytes && static_cast<size_t>(begin - state) <= state_bytes - bytes;
  }

  // Those of the call that this thread executes; null: all tokens are the executing session's.
  static inline thread_local const Sequences* in_force = nullptr;
};

// Puts sequences in force on this thread.
class SequencesScope {
 public:
  explicit SequencesScope(const Sequences* sequences) { Sequences::in_force = sequences; }
  ~SequencesScope() { Sequences::in_force = nullptr; }
  SequencesScope(const SequencesScope&) = delete;
  SequencesScope& operator=(const SequencesScope&) = delete;
};

// An sequence's rows of an operator's input, and its tokens.
struct Part {
  int64_t first;
  int64_t count;
  int64_t first_token;
  int64_t tokens;
  ptrdiff_t moved;

  // The sequence's copy of what lies in the executing session's state.
  template <typename T>
  T* own(T* state) const {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(state) + static_cast<uintptr_t>(moved));
  }
};

// Calls use(part) for each sequence of an operator's `rows`, in a call of so many tokens, until one returns false; whether
// all returned true. False, too, where the numbers are not the call's.
template <typename Use>
bool for_sequences(int64_t rows, int64_t tokens, const Use& use) {
  const Sequences* sequences = Sequences::in_force;
  if (sequences == nullptr) return use(Part{0, rows, 0, tokens, 0});
  const bool chosen = rows != sequences->tokens;
  if (tokens != sequences->tokens || (chosen && rows != sequences->rows)) return false;
  for (const Sequence& sequence : sequences->all) {
    const int64_t first = chosen ? sequence.first_row : sequence.first_token, count = chosen ? sequence.rows : sequence.tokens;
    if (!use(Part{first, count, sequence.first_token, sequence.tokens, sequence.moved})) return false;
  }
  return true;
}

}  // namespace edgec
