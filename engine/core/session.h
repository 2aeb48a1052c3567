// One sequence on a model, with its own state and its own instance of the method, over the model's packed weights.
#pragma once

#include <executorch/runtime/core/span.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arena.h"
#include "edgec/engine.h"
#include "input_embeds.h"
#include "profile.h"
#include "kernels/region/adapter.h"

namespace edgec {
struct Sequences;
}

namespace edgec::engine {

class Model;

class Session {
 public:
  // Packed weights are read from or written to `packed_path`; empty: packed in memory, shared by the process.
  // `profiled`: time every instruction, at the cost of a few virtual calls for each.
  Session(Model& model, const std::string& packed_path, bool profiled = false);
  ~Session();

  // Throws Failure when ExecuTorch refuses the inputs or fails. Waits while another session of the model runs.
  // `sequences`: whose the tokens are; null: all this session's.
  void run(const EdgecTensor* inputs, size_t count, const Sequences* sequences = nullptr);
  // A decoder's call, with what else it reads of its tokens; Failure as above.
  void forward(const EdgecTensor& tokens, const EdgecTensor& positions, const EdgecTensor& rows);
  // Outputs of the last run, owned by the session.
  const std::vector<EdgecTensor>& outputs() const { return outputs_; }

  // Later runs use the adapter; null: none.
  void set_adapter(std::shared_ptr<const Adapter> adapter) { adapter_ = std::move(adapter); }
  const Adapter* adapter() const { return adapter_.get(); }

  // Rows in the place of tokens; null where the model reads none.
  InputEmbeds* input_embeds() { return input_embeds_.get(); }
  const InputEmbeds* input_embeds() const { return input_embeds_.get(); }

  executorch::runtime::Span<uint8_t> state() const;
  // Zero the state, and drop the outputs, the adapter and the rows.
  void reset();
  // Null unless the session is profiled.
  Profile* profile() { return profile_.get(); }
  Model& model() { return model_; }
  const Model& model() const { return model_; }
  // The text of the last edgec_session_profile.
  std::string profile_text;

 private:
  struct Instance;

  std::vector<executorch::runtime::Span<uint8_t>> planned_memory();
  void follow_pool();
  void set_input(const EdgecTensor& tensor, size_t index);
  void keep_outputs();
  bool lies_in_own_memory(const uint8_t* data) const;

  Model& model_;
  std::string packed_path_;
  std::unique_ptr<Profile> profile_;
  std::shared_ptr<const Adapter> adapter_;
  std::unique_ptr<InputEmbeds> input_embeds_;
  std::vector<Arena> arenas_;
  std::vector<executorch::runtime::Span<uint8_t>> planned_;
  std::unique_ptr<Instance> instance_;
  std::vector<std::vector<uint8_t>> output_bytes_;  // of outputs in memory that other sessions write
  std::vector<EdgecTensor> outputs_;
};

}  // namespace edgec::engine
