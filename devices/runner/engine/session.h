// One sequence on a model: its own state, its own instance of the method, the model's packed weights.
#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/method.h>

#include <memory>
#include <string>
#include <vector>

#include "arena.h"
#include "c_api.h"
#include "profile.h"

namespace edgec::engine {

class Model;

class Session {
 public:
  // Packed weights are read from or written to `packed_path`; empty: packed in memory, shared by the process.
  Session(Model& model, const std::string& packed_path);

  // Throws Failure when ExecuTorch refuses the inputs or fails. Waits while another session of the model runs.
  void run(const EdgecTensor* inputs, size_t count);
  // Outputs of the last run, owned by the session.
  const std::vector<EdgecTensor>& outputs() const { return outputs_; }

  executorch::runtime::Span<uint8_t> state() const;
  // Zero the state, drop outputs and profile.
  void reset();
  Profile& profile() { return profile_; }
  Model& model() { return model_; }
  // The text of the last edgec_session_profile.
  std::string profile_text;

 private:
  std::vector<executorch::runtime::Span<uint8_t>> planned_memory();
  void set_input(const EdgecTensor& tensor, size_t index);
  void copy_outputs();

  Model& model_;
  Profile profile_;
  std::vector<Arena> arenas_;
  std::vector<executorch::runtime::Span<uint8_t>> planned_;
  executorch::runtime::HierarchicalAllocator hierarchy_;
  executorch::extension::MallocMemoryAllocator method_memory_;
  executorch::extension::MallocMemoryAllocator temporary_memory_;
  executorch::runtime::MemoryManager memory_;
  std::unique_ptr<executorch::runtime::Method> method_;
  std::vector<std::vector<uint8_t>> output_bytes_;
  std::vector<EdgecTensor> outputs_;
};

}  // namespace edgec::engine
