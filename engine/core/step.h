// One call of a decoder for several sessions (edgec_model_step): one of them executes its program for all.
#pragma once

#include <cstdint>
#include <vector>

namespace edgec::engine {

class Model;
class Session;

struct StepRun {
  Session* session;
  int64_t tokens;
  int64_t rows;
};

// Those of all runs, one run after the other; a run's rows count from its own first token.
struct StepInputs {
  const int64_t* tokens;
  const int64_t* positions;
  const int64_t* rows;
};

// Throws Failure where the program cannot serve several sessions at once, or a run is out of range.
void run_together(Model& model, const std::vector<StepRun>& runs, const StepInputs& inputs);

}  // namespace edgec::engine
