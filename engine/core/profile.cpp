#include "profile.h"

#include <chrono>
#include <cstring>

namespace edgec::engine {
namespace {

constexpr int64_t kInstruction = 1;
constexpr int64_t kIgnored = 0;

bool is_instruction(const char* name) {
  return std::strcmp(name, "OPERATOR_CALL") == 0 || std::strcmp(name, "DELEGATE_CALL") == 0;
}

std::string label(const char* name) {
  constexpr const char* prefix = "native_call_";
  return std::strncmp(name, prefix, std::strlen(prefix)) == 0 ? name + std::strlen(prefix) : name;
}

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Profile::Entry Profile::start_profiling(const char* name, ChainID, Handle) {
  Entry entry{};
  entry.event_id = kIgnored;
  if (chain_id_ == executorch::runtime::kUnsetChainId) {
    return entry;
  }
  entry.chain_id = chain_id_;
  entry.debug_handle = debug_handle_;
  if (is_instruction(name)) {
    entry.event_id = kInstruction;
    entry.start_time = static_cast<et_timestamp_t>(now_ns());
    rows_[{chain_id_, debug_handle_}].name = std::strcmp(name, "DELEGATE_CALL") == 0 ? "delegate" : "operator";
  } else {
    rows_[{chain_id_, debug_handle_}].name = label(name);
  }
  return entry;
}

void Profile::end_profiling(Entry entry) {
  if (entry.event_id != kInstruction) {
    return;
  }
  Row& row = rows_[{entry.chain_id, entry.debug_handle}];
  row.calls += 1;
  row.total_ns += now_ns() - static_cast<int64_t>(entry.start_time);
}

std::string Profile::json() const {
  std::string text = "{\"instructions\":[";
  for (const auto& [place, row] : rows_) {
    text += text.back() == '[' ? "" : ",";
    text += "{\"chain\":" + std::to_string(place.first) + ",\"index\":" + std::to_string(place.second);
    text += ",\"name\":\"" + row.name + "\",\"calls\":" + std::to_string(row.calls);
    text += ",\"total_ns\":" + std::to_string(row.total_ns) + "}";
  }
  return text + "]}";
}

std::set<std::string> Profile::names() const {
  std::set<std::string> all;
  for (const auto& [place, row] : rows_) all.insert(row.name);
  return all;
}

}  // namespace edgec::engine
