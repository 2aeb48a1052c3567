// Rows in the place of some tokens of a session's sequence: what an encoder made of images or of sound.
//
//     forward(tokens [1, S], positions [S], input_embeds [1, S, W], embeds_mask [1, S, 1], span_end [S]?, mrope_positions [3, S]?,
//             rows [K])
//
// Where `embeds_mask`, a row of `input_embeds` takes the place of the token's embedding. As runtime_py/sessions/placed_rows.py.
#pragma once

#include <executorch/runtime/executor/method_meta.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "edgec/engine.h"

namespace edgec::engine {

// Which further inputs a decoder reads between its positions and the wanted rows.
struct EmbedsInputs {
  int64_t width = 0;  // of a row; 0: the decoder reads none, nor anything else
  bool span_end = false;
  bool mrope = false;
};

// The further inputs of forward; none where a method reads others.
EmbedsInputs embeds_inputs(const executorch::runtime::MethodMeta& meta);

class InputEmbeds {
 public:
  explicit InputEmbeds(const EmbedsInputs& inputs) : inputs_(inputs) {}

  // Throws Failure (EDGEC_REFUSED) where the facts do not agree; then the rows stay as they were.
  void put(const EdgecInputEmbeds& given);
  // Read every token as text from now on.
  void forget();
  // How many of the tokens from `start` up to `end` a call of at most `most` takes; 0: none can be taken whole.
  int64_t call_size(int64_t start, int64_t end, int64_t most) const;
  // Write a call's further inputs, for tokens at these positions, to `out`; returns how many. They are valid until the
  // next call. Throws Failure where a token sees positions behind all of the call.
  size_t feed(const int64_t* positions, size_t count, EdgecTensor* out);

 private:
  int64_t span_end(int64_t position) const;
  int64_t mrope(size_t part, int64_t position) const;
  void check(const EdgecInputEmbeds& given) const;
  void check_span_end(const int64_t* positions, size_t count) const;

  EmbedsInputs inputs_;
  int64_t length_ = 0;           // tokens that the facts are about
  std::vector<float> rows_;      // [rows][width]
  std::vector<int64_t> row_of_;  // [length], -1: the token is text
  std::vector<int64_t> span_end_;   // [length], or empty
  std::vector<int64_t> mrope_;   // [3][length], or empty
  int64_t mrope_next_ = 0;
  // The inputs of the last call.
  std::vector<float> input_embeds_;
  std::vector<uint8_t> embeds_mask_;
  std::vector<int64_t> span_ends_;
  std::vector<int64_t> parts_;
};

}  // namespace edgec::engine
