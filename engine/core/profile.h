// The time of each instruction, summed up from what ExecuTorch reports to its event tracer.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace edgec::engine {

// An event tracer that adds up calls and nanoseconds per instruction. ExecuTorch reports an operator twice, as an
// instruction around the kernel and as the kernel: the first gives the time, the second the name. Delegates report no
// inner events in ExecuTorch's own build.
class Profile final : public executorch::runtime::EventTracer {
 public:
  using Entry = executorch::runtime::EventTracerEntry;
  using ChainID = executorch::runtime::ChainID;
  using Handle = executorch::runtime::DebugHandle;
  using DelegateId = executorch::runtime::DelegateDebugIntId;
  using Tensor = executorch::aten::Tensor;

  void reset() { rows_.clear(); }
  // The JSON text described at edgec_session_profile.
  std::string json() const;
  // The names of the instructions that were executed.
  std::set<std::string> names() const;

  Entry start_profiling(const char* name, ChainID chain, Handle handle) override;
  void end_profiling(Entry entry) override;

  // Nothing else is recorded.
  void create_event_block(const char*) override {}
  Entry start_profiling_delegate(const char*, DelegateId) override { return Entry(); }
  void end_profiling_delegate(Entry, const void*, size_t) override {}
  void log_profiling_delegate(const char*, DelegateId, et_timestamp_t, et_timestamp_t, const void*, size_t) override {}
  void track_allocation(executorch::runtime::AllocatorID, size_t) override {}
  executorch::runtime::AllocatorID track_allocator(const char*) override { return 0; }
  void set_delegation_intermediate_output_filter(executorch::runtime::EventTracerFilterBase*) override {}
  using Logged = executorch::runtime::Result<bool>;
  Logged log_evalue(const executorch::runtime::EValue&, executorch::runtime::LoggedEValueType) override {
    return false;
  }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const Tensor&) override { return false; }
  Logged log_intermediate_output_delegate(
      const char*, DelegateId, const executorch::runtime::ArrayRef<Tensor>) override {
    return false;
  }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const int&) override { return false; }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const bool&) override { return false; }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const double&) override { return false; }

 private:
  struct Row {
    std::string name;
    int64_t calls = 0;
    int64_t total_ns = 0;
  };

  std::map<std::pair<ChainID, Handle>, Row> rows_;
};

// Nanoseconds of a steady clock.
int64_t now_ns();

}  // namespace edgec::engine
