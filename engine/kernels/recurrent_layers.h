// Recurrent layers over a whole sequence, one direction of one layer at a time; meaning in ir/recurrent_layers.py.
#pragma once

#include <cstdint>

namespace edgec {

// The matrix that reads the hidden state, [rows, width]: floats, or bytes with a scale for each row.
struct RecurrentMatrix {
  const float* floats;
  const int8_t* bytes;
  const float* scales;
  int64_t rows;
  int64_t width;
};

// What all of them read; `given` [batch, steps, rows]: what the inputs add to the gates of each step.
struct RecurrentLayer {
  const float* given;
  const float* hidden;  // [batch, width], before the first step
  RecurrentMatrix weight;
  int64_t batch;
  int64_t steps;
  bool backwards;
  float* out;
};

// `out` [batch, steps + 1, width]: hidden states, and the last cell state after them.
void lstm(const RecurrentLayer& layer, const float* cell);

// `out` [batch, steps, width]; `bias` [rows] belongs to the hidden state's part of the gates, null: none.
void gru(const RecurrentLayer& layer, const float* bias);

}  // namespace edgec
