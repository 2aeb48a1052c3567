// A loaded artifact: its program, its packed weights, and the memory that its sessions share.
#pragma once

#include <executorch/runtime/executor/program.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "arena.h"
#include "edgec/engine.h"
#include "laid_out_file.h"
#include "mapped_file.h"
#include "input_embeds.h"
#include "read_ahead.h"
#include "kernels/region/adapter.h"

namespace edgec::engine {

class Session;

// Index of the memory arena that holds a program's state (ExecuTorch's memory id 2, `share_mutable_buffers`).
constexpr size_t kScratchArena = 0;
constexpr size_t kStateArena = 1;

class Model {
 public:
  // Throws Failure when ExecuTorch refuses the artifact. `method` may be empty: a decoder's forward_rows, or else
  // forward. `packed_path` may be empty: pack in memory.
  Model(const std::string& artifact, const std::string& method, const std::string& packed_path);
  ~Model();

  // A session with zeroed state: the one kept from a closed session, or a new one; a profiled one is always new.
  std::unique_ptr<Session> open_session(bool profiled);
  // Take a session back; one is kept for reuse, so that the packed weights stay loaded.
  void close_session(std::unique_ptr<Session> session);

  EdgecModelInfo info() const;

  const executorch::runtime::Program& program() const { return program_; }
  const std::string& method() const { return method_; }
  executorch::runtime::MethodMeta meta() const;
  // Whether the program keeps its state in a separate arena, so that all sessions share one copy of the activations.
  bool shares_scratch() const;
  // The facts that do not change: the sizes, and how many tokens and rows a decoder's call takes.
  const EdgecModelInfo& shape() const { return info_; }
  // What a decoder reads of rows in the place of tokens.
  const EmbedsInputs& embeds_inputs() const { return embeds_inputs_; }
  // The matrices that edgec's own kernels multiply by.
  const NotedMatrices& matrices() const { return matrices_; }
  executorch::runtime::Span<uint8_t> scratch() const { return scratch_.span(); }
  // Give the artifact's pages that loading has touched back to the kernel.
  void forget_artifact() const { artifact_.forget(); }
  // Why the program serves one session at a time, empty where it serves several at once; found out once.
  const std::string& sessions_obstacle(const std::function<std::string()>& find);
  // Held while a session runs.
  std::mutex& run_lock() { return run_lock_; }

 private:
  std::unique_ptr<Session> load(const std::string& packed_path);
  std::unique_ptr<Session> load_packed(const std::string& packed_path);
  // The runs of the artifact that the kernels read, one after the other.
  std::vector<Run> matrix_runs() const;

  MappedFile artifact_;
  executorch::runtime::Program program_;
  std::string method_;
  Arena scratch_;
  LaidOutFile laid_out_;
  NotedMatrices matrices_;
  std::mutex run_lock_;
  mutable std::mutex sessions_lock_;
  std::unique_ptr<Session> spare_;
  std::string weights_path_;
  std::mutex obstacle_lock_;
  std::optional<std::string> obstacle_;
  EdgecModelInfo info_{};
  EmbedsInputs embeds_inputs_;
  ReadAhead read_ahead_;
};

}  // namespace edgec::engine
