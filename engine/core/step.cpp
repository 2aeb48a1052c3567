#include "step.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "border.h"
#include "failure.h"
#include "kernels/sequences.h"
#include "model.h"
#include "profile.h"
#include "session.h"

namespace edgec::engine {
namespace {

// tokens, positions, rows: whatever else a decoder reads belongs to one sequence.
constexpr size_t kInputs = 3;

// Whether an instruction has no state, or one that edgec's operators find for each sequence. ExecuTorch's portable kernels
// name themselves without a namespace; its LLM library's (llama::custom_sdpa.out) have one.
bool serves_several(const std::string& name) {
  constexpr const char* kKnown[] = {"edgec::", "aten::", "dim_order_ops::", "executorch_prim::"};
  const auto begins = [&](const char* known) { return name.rfind(known, 0) == 0; };
  return name.find("::") == std::string::npos || std::any_of(std::begin(kKnown), std::end(kKnown), begins);
}

// The names of the instructions that a call of one token executes.
std::set<std::string> instructions(Model& model) {
  const auto close = [&model](Session* session) { model.close_session(std::unique_ptr<Session>(session)); };
  const std::unique_ptr<Session, decltype(close)> session(model.open_session(true).release(), close);
  const int64_t zero = 0;
  const EdgecTensor inputs[] = {integers(&zero, 1, true), integers(&zero, 1, false), integers(&zero, 1, false)};
  session->run(inputs, std::size(inputs));
  return session->profile()->names();
}

// Why the program serves one session at a time; empty where it serves several.
std::string obstacle(Model& model) {
  const bool decoder = model.shape().max_tokens > 0 && model.meta().num_inputs() == kInputs;
  if (!decoder) return "it is not forward(tokens, positions, rows)";
  if (!model.shares_scratch() || model.shape().state_bytes == 0) return "its state lies among the activations";
  for (const std::string& name : instructions(model)) {
    if (!serves_several(name)) return "its operator " + name + " keeps one sequence";
  }
  return "";
}

void check_run(const StepRun& run, const Model& model, const int64_t* rows) {
  const auto refuse_unless = [](bool fine, const std::string& text) {
    if (!fine) throw Failure(EDGEC_REFUSED, text);
  };
  refuse_unless(&run.session->model() == &model, "a run's session is another model's");
  const EdgecModelInfo& most = model.shape();
  refuse_unless(run.tokens >= 1 && run.tokens <= most.max_tokens, "a run has no tokens or too many");
  refuse_unless(run.rows >= 0 && run.rows <= run.tokens, "a run has more rows than tokens");
  for (int64_t i = 0; i < run.rows; ++i) {
    const int64_t least = i == 0 ? 0 : rows[i - 1] + 1;
    refuse_unless(rows[i] >= least && rows[i] < run.tokens, "a run's rows do not rise within its tokens");
  }
}

Sequences sequences_of(const Model& model, const std::vector<StepRun>& runs, const int64_t* rows) {
  const auto state = runs.front().session->state();
  Sequences sequences{{}, 0, 0, state.data(), state.size()};
  std::set<const Session*> seen;
  for (const StepRun& run : runs) {
    check_run(run, model, rows + sequences.rows);
    if (!seen.insert(run.session).second) throw Failure(EDGEC_REFUSED, "a session has two runs");
    if (run.session->adapter() != runs.front().session->adapter()) {
      throw Failure(EDGEC_REFUSED, "the sessions have different adapters");
    }
    const auto own = reinterpret_cast<uintptr_t>(run.session->state().data());
    const auto moved = static_cast<ptrdiff_t>(own - reinterpret_cast<uintptr_t>(state.data()));
    sequences.all.push_back({sequences.tokens, run.tokens, sequences.rows, run.rows, moved});
    sequences.tokens += run.tokens;
    sequences.rows += run.rows;
  }
  if (sequences.rows == 0) throw Failure(EDGEC_REFUSED, "no logits are wanted");
  return sequences;
}

// The rows of all runs as indices into the tokens of all.
std::vector<int64_t> rows_among_all(const Sequences& sequences, const int64_t* rows) {
  std::vector<int64_t> all(rows, rows + sequences.rows);
  for (const Sequence& sequence : sequences.all) {
    for (int64_t i = 0; i < sequence.rows; ++i) all[sequence.first_row + i] += sequence.first_token;
  }
  return all;
}

}  // namespace

void run_together(Model& model, const std::vector<StepRun>& runs, const StepInputs& inputs) {
  const std::string& why = model.sessions_obstacle([&] { return obstacle(model); });
  if (!why.empty()) throw Failure(EDGEC_REFUSED, "the program serves one session at a time: " + why);
  const Sequences sequences = sequences_of(model, runs, inputs.rows);
  const std::vector<int64_t> rows = rows_among_all(sequences, inputs.rows);
  const auto tokens = static_cast<size_t>(sequences.tokens);
  const EdgecTensor all[] = {
      integers(inputs.tokens, tokens, true), integers(inputs.positions, tokens, false),
      integers(rows.data(), rows.size(), false)};
  runs.front().session->run(all, std::size(all), &sequences);
}

}  // namespace edgec::engine
