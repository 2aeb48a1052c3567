#include "model.h"

#include <utility>

#include "failure.h"
#include "instructions.h"
#include "packed_file.h"
#include "profile.h"
#include "runtime_log.h"
#include "session.h"
#include "threads.h"

namespace edgec::engine {
namespace {

using executorch::runtime::Program;

// Packing rounds each weight up to pages and to the kernel's tiles; measured: 1.0 to 1.2 times the artifact.
constexpr double kPackedPerArtifact = 1.5;
constexpr int64_t kPackedRoom = 64 << 20;

Program parsed(MappedFile& artifact) {
  start_runtime();
  const LogScope log;
  auto program = Program::load(&artifact, Program::Verification::InternalConsistency);
  check(program.error(), "the artifact is not a program for this ExecuTorch");
  return std::move(program.get());
}

executorch::runtime::MethodMeta meta_of(const Program& program, const std::string& method) {
  const LogScope log;
  const auto meta = program.method_meta(method.c_str());
  check(meta.error(), "the artifact has no method \"" + method + "\"");
  return meta.get();
}

// The method that a decoder's runtime calls. Beside it, `forward` is for ExecuTorch's own runner.
std::string called_method(const Program& program) {
  const std::string rows = "forward_rows";
  for (size_t i = 0; i < program.num_methods(); ++i) {
    const auto name = program.get_method_name(i);
    if (name.ok() && rows == name.get()) return rows;
  }
  return "forward";
}

int64_t planned_bytes(const executorch::runtime::MethodMeta& meta, size_t arena) {
  if (arena >= meta.num_memory_planned_buffers()) return 0;
  const auto bytes = meta.memory_planned_buffer_size(arena);
  return bytes.ok() ? bytes.get() : 0;
}

// Whether an input is an int64 tensor of this rank.
bool is_index(const executorch::runtime::MethodMeta& meta, size_t input, size_t rank) {
  const auto tensor = meta.input_tensor_meta(input);
  return tensor.ok() && tensor->scalar_type() == executorch::aten::ScalarType::Long && tensor->sizes().size() == rank;
}

// The largest size of an input's last dimension; the program states bounds of dynamic shapes as its shapes.
int64_t last_size(const executorch::runtime::MethodMeta& meta, size_t input) {
  const auto tensor = meta.input_tensor_meta(input);
  return tensor.ok() && tensor->sizes().size() > 0 ? tensor->sizes()[tensor->sizes().size() - 1] : 0;
}

// Whether the method is a decoder's: (tokens [1, S], positions [S], ..., rows [K]). Between positions and rows lie
// an encoder's keys and values, where the decoder has one.
bool takes_tokens(const executorch::runtime::MethodMeta& meta) {
  constexpr size_t kFewest = 3;
  if (meta.num_inputs() < kFewest) return false;
  const size_t rows = meta.num_inputs() - 1;
  return is_index(meta, 0, 2) && is_index(meta, 1, 1) && is_index(meta, rows, 1) &&
         last_size(meta, 0) == last_size(meta, 1) && last_size(meta, rows) > 0;
}

}  // namespace

Model::Model(const std::string& artifact, const std::string& method, const std::string& packed_path)
    : artifact_(artifact),
      program_(parsed(artifact_)),
      method_(method.empty() ? called_method(program_) : method),
      scratch_(shares_scratch() ? planned_bytes(meta(), kScratchArena) : 0),
      laid_out_(packed_path, artifact_) {
  require_known_isa();
  const int64_t start = now_ns();
  info_.state_bytes = planned_bytes(meta(), kStateArena);
  info_.scratch_bytes = planned_bytes(meta(), kScratchArena);
  info_.max_tokens = takes_tokens(meta()) ? last_size(meta(), 0) : 0;
  info_.max_rows = takes_tokens(meta()) ? last_size(meta(), meta().num_inputs() - 1) : 0;
  if (info_.max_tokens > 0) embeds_inputs_ = edgec::engine::embeds_inputs(meta());
  spare_ = load(packed_path);
  read_ahead_.start(matrix_runs());
  info_.load_ns = now_ns() - start;
}

Model::~Model() = default;

std::vector<Run> Model::matrix_runs() const {
  std::vector<Run> runs(matrices_.size());
  for (const auto& [key, noted] : matrices_) {
    const linear::Matrix& matrix = noted.matrix;
    if (artifact_.offset_of(matrix.data)) runs[noted.turn] = {matrix.data, matrix.bytes()};
  }
  return joined(runs);
}

executorch::runtime::MethodMeta Model::meta() const {
  return meta_of(program_, method_);
}

bool Model::shares_scratch() const {
  return meta().num_memory_planned_buffers() > kStateArena;
}

std::unique_ptr<Session> Model::load(const std::string& packed_path) {
  const PoolInUse pool;
  const LaidOutScope scope(laid_out_);
  const NotedMatricesScope noted(matrices_);
  std::unique_ptr<Session> session = load_packed(packed_path);
  laid_out_.finish();
  info_.packed_bytes += laid_out_.bytes();
  if (laid_out_.origin() == EDGEC_PACKED_WRITTEN || info_.packed == EDGEC_PACKED_IN_MEMORY) {
    info_.packed = laid_out_.origin();
  }
  return session;
}

std::unique_ptr<Session> Model::load_packed(const std::string& packed_path) {
  // edgec's own kernels read matrices as they lie in the artifact.
  if (!meta().uses_backend("XnnpackBackend")) {
    return std::make_unique<Session>(*this, "");
  }
  PackedFile file(packed_path);
  const auto artifact_bytes = static_cast<double>(artifact_.size().get());
  const bool mapped = file.usable() && file.intact();
  if (!mapped && (!file.usable() || !file.has_room(int64_t(kPackedPerArtifact * artifact_bytes) + kPackedRoom))) {
    return std::make_unique<Session>(*this, "");
  }
  if (!mapped) {
    std::unique_ptr<Session> packing = std::make_unique<Session>(*this, file.aside());
    packing.reset();
    if (!file.keep_aside()) {
      return std::make_unique<Session>(*this, "");
    }
  }
  std::unique_ptr<Session> session = std::make_unique<Session>(*this, file.path());
  file.unlock_backend();
  file.fault_in();
  weights_path_ = file.path();
  info_.packed = mapped ? EDGEC_PACKED_MAPPED : EDGEC_PACKED_WRITTEN;
  info_.packed_bytes = file.bytes();
  return session;
}

std::unique_ptr<Session> Model::open_session(bool profiled) {
  const PoolInUse pool;
  const std::lock_guard<std::mutex> lock(sessions_lock_);
  const LaidOutScope scope(laid_out_);
  std::unique_ptr<Session> session = spare_ && !profiled
      ? std::move(spare_)
      : std::make_unique<Session>(*this, weights_path_, profiled);
  info_.sessions += 1;
  return session;
}

void Model::close_session(std::unique_ptr<Session> session) {
  const std::lock_guard<std::mutex> lock(sessions_lock_);
  info_.sessions -= 1;
  if (!spare_ && session->profile() == nullptr) {
    session->reset();
    spare_ = std::move(session);
  }
}

const std::string& Model::sessions_obstacle(const std::function<std::string()>& find) {
  const std::lock_guard<std::mutex> lock(obstacle_lock_);
  if (!obstacle_) obstacle_ = find();
  return *obstacle_;
}

EdgecModelInfo Model::info() const {
  const std::lock_guard<std::mutex> lock(sessions_lock_);
  return info_;
}

}  // namespace edgec::engine
