#include "runtime_log.h"

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "failure.h"

namespace edgec::engine {
namespace {

thread_local int depth = 0;
thread_local std::string last_error;

void emit(
    et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message, size_t length) {
  const bool serious = level == et_pal_log_level_t::kError || level == et_pal_log_level_t::kFatal;
  if (depth > 0 && level != et_pal_log_level_t::kFatal) {
    if (serious) {
      last_error.assign(message, length);
    }
    return;
  }
  std::fprintf(stderr, "executorch: %.*s\n", static_cast<int>(length), message);
}

// ExecuTorch warns on stderr that its log is replaced; here that is intended.
void route_log() {
  const int saved = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDERR_FILENO);
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(emit, "edgec"));
  dup2(saved, STDERR_FILENO);
  close(nowhere);
  close(saved);
}

}  // namespace

void start_runtime() {
  static std::once_flag once;
  std::call_once(once, [] {
    route_log();
    executorch::runtime::runtime_init();
  });
}

LogScope::LogScope() {
  if (depth++ == 0) {
    last_error.clear();
  }
}

LogScope::~LogScope() {
  --depth;
}

std::string last_log_error() {
  return last_error;
}

void check(executorch::runtime::Error error, const std::string& what) {
  if (error == executorch::runtime::Error::Ok) {
    return;
  }
  std::string text = what + " (ExecuTorch: " + executorch::runtime::to_string(error) + ")";
  if (!last_error.empty()) {
    text += ": " + last_error;
  }
  throw Failure(EDGEC_REFUSED, text);
}

}  // namespace edgec::engine
