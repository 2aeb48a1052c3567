#include "session.h"

#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/method.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <utility>

#include "border.h"
#include "failure.h"
#include "heap_allocator.h"
#include "kernels/sequences.h"
#include "model.h"
#include "runtime_log.h"
#include "threads.h"

namespace edgec::engine {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::EValue;
using executorch::runtime::Method;

// Workspaces (XNNPACK's activations) are shared by all delegates of the process: sessions do not run at the same time.
constexpr int kGlobalWorkspace = 2;

Method loaded(
    Model& model, const std::string& packed_path, executorch::runtime::MemoryManager* memory, Profile* profile) {
  const LogScope log;
  executorch::runtime::BackendOptions<3> options;
  (void)options.set_option("weight_cache_enabled", true);
  (void)options.set_option("workspace_sharing_mode", kGlobalWorkspace);
  if (!packed_path.empty()) {
    (void)options.set_option("packed_cache_path", packed_path.c_str());
  }
  executorch::runtime::LoadBackendOptionsMap backends;
  check(backends.set_options("XnnpackBackend", options.view()), "XNNPACK's options");
  auto method = model.program().load_method(model.method().c_str(), memory, profile, nullptr, &backends);
  check(method.error(), "the method \"" + model.method() + "\" cannot be loaded");
  return std::move(method.get());
}

}  // namespace

// The method as ExecuTorch loads it, over memory that outlives it.
struct Session::Instance {
  Instance(Session& session)
      : hierarchy({session.planned_.data(), session.planned_.size()}),
        memory(&method_memory, &hierarchy, &temporary_memory),
        pool(pool_identity()),
        method(loaded(session.model_, session.packed_path_, &memory, session.profile_.get())) {
    // Loading looked at every block's scale; with packed weights nothing reads them again.
    session.model_.forget_artifact();
  }

  executorch::runtime::HierarchicalAllocator hierarchy;
  HeapAllocator method_memory;
  HeapAllocator temporary_memory;
  executorch::runtime::MemoryManager memory;
  PoolIdentity pool;
  Method method;
};

Session::Session(Model& model, const std::string& packed_path, bool profiled)
    : model_(model),
      packed_path_(packed_path),
      profile_(profiled ? std::make_unique<Profile>() : nullptr),
      input_embeds_(model.embeds_inputs().width > 0 ? std::make_unique<InputEmbeds>(model.embeds_inputs()) : nullptr),
      planned_(planned_memory()),
      instance_(std::make_unique<Instance>(*this)) {}

Session::~Session() = default;

// The pool was replaced since the method was loaded: load again. The state lies in the arenas and stays; the new
// instance is made before the old one goes, so that weights packed in memory stay too.
void Session::follow_pool() {
  if (!(instance_->pool == pool_identity())) {
    instance_ = std::make_unique<Instance>(*this);
  }
}

std::vector<executorch::runtime::Span<uint8_t>> Session::planned_memory() {
  const auto meta = model_.meta();
  std::vector<executorch::runtime::Span<uint8_t>> spans;
  for (size_t index = 0; index < meta.num_memory_planned_buffers(); ++index) {
    if (index == kScratchArena && model_.shares_scratch()) {
      spans.push_back(model_.scratch());
    } else {
      spans.push_back(arenas_.emplace_back(meta.memory_planned_buffer_size(index).get()).span());
    }
  }
  return spans;
}

void Session::run(const EdgecTensor* inputs, size_t count, const Sequences* sequences) {
  const std::lock_guard<std::mutex> turn(model_.run_lock());
  const PoolInUse pool;
  const LogScope log;
  follow_pool();
  const size_t wanted = instance_->method.inputs_size();
  if (count != wanted) {
    throw Failure(
        EDGEC_REFUSED,
        "the method takes " + std::to_string(wanted) + " inputs, " + std::to_string(count) + " given");
  }
  for (size_t index = 0; index < count; ++index) {
    check_tensor(inputs[index], index);
  }
  if (model_.shape().max_tokens > 0) {
    check_decoder_call(inputs, count, model_.shape());
  }
  for (size_t index = 0; index < count; ++index) {
    set_input(inputs[index], index);
  }
  const SequencesScope whose(sequences);
  const AdapterScope adapted(adapter_.get());
  check(instance_->method.execute(), "the method failed");
  keep_outputs();
}

void Session::forward(const EdgecTensor& tokens, const EdgecTensor& positions, const EdgecTensor& rows) {
  // tokens, positions, up to four further inputs, rows.
  std::array<EdgecTensor, 7> inputs{tokens, positions};
  size_t count = 2;
  if (input_embeds_ != nullptr) {
    check_tensor(positions, 1);
    check_positions(positions, model_.shape());
    const auto* places = static_cast<const int64_t*>(positions.data);
    count += input_embeds_->feed(places, static_cast<size_t>(positions.sizes[0]), &inputs[2]);
  }
  inputs[count++] = rows;
  run(inputs.data(), count);
}

void Session::set_input(const EdgecTensor& tensor, size_t index) {
  std::array<TensorImpl::SizesType, EDGEC_MAX_RANK> sizes{};
  std::array<TensorImpl::DimOrderType, EDGEC_MAX_RANK> order{};
  std::array<TensorImpl::StridesType, EDGEC_MAX_RANK> strides{};
  int64_t stride = 1;
  for (int32_t dim = tensor.rank - 1; dim >= 0; --dim) {
    sizes[dim] = static_cast<TensorImpl::SizesType>(tensor.sizes[dim]);
    order[dim] = static_cast<TensorImpl::DimOrderType>(dim);
    strides[dim] = static_cast<TensorImpl::StridesType>(stride);
    stride *= tensor.sizes[dim];
  }
  TensorImpl impl(
      static_cast<ScalarType>(tensor.dtype), tensor.rank, sizes.data(), tensor.data, order.data(), strides.data());
  check(instance_->method.set_input(EValue(Tensor(&impl)), index), "input " + std::to_string(index) + " does not fit");
}

// Where they lie, or as copies, made while the turn lasts: another session may write shared activations as soon as it ends, and
// an output may be an input that its sequence frees.
void Session::keep_outputs() {
  const Method& method = instance_->method;
  output_bytes_.resize(method.outputs_size());
  outputs_.assign(method.outputs_size(), EdgecTensor{});
  for (size_t index = 0; index < outputs_.size(); ++index) {
    const EValue& value = method.get_output(index);
    if (!value.isTensor() || value.toTensor().dim() > EDGEC_MAX_RANK) {
      throw Failure(EDGEC_REFUSED, "output " + std::to_string(index) + " is not a tensor that this engine can return");
    }
    const Tensor& tensor = value.toTensor();
    const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
    if (data == nullptr && tensor.nbytes() > 0) {
      throw Failure(EDGEC_FAILED, "output " + std::to_string(index) + " has no data");
    }
    const bool stays = lies_in_own_memory(data);
    output_bytes_[index].assign(data, data + (stays ? 0 : tensor.nbytes()));
    EdgecTensor& output = outputs_[index];
    output.data = stays ? const_cast<uint8_t*>(data) : output_bytes_[index].data();
    output.dtype = static_cast<int32_t>(tensor.scalar_type());
    output.rank = static_cast<int32_t>(tensor.dim());
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), output.sizes);
  }
}

bool Session::lies_in_own_memory(const uint8_t* data) const {
  return std::any_of(arenas_.begin(), arenas_.end(), [&](const Arena& arena) {
    const auto own = arena.span();
    return std::greater_equal<>()(data, own.begin()) && std::less<>()(data, own.end());
  });
}

executorch::runtime::Span<uint8_t> Session::state() const {
  return planned_.size() > kStateArena ? planned_[kStateArena] : executorch::runtime::Span<uint8_t>();
}

void Session::reset() {
  for (Arena& arena : arenas_) {
    arena.clear();
  }
  outputs_.clear();
  output_bytes_.clear();
  adapter_.reset();
  if (input_embeds_ != nullptr) input_embeds_->forget();
}

}  // namespace edgec::engine
