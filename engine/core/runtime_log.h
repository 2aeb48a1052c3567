// ExecuTorch's log: kept while the engine calls into ExecuTorch, so that a failure can say why; printed otherwise.
#pragma once

#include <string>

namespace edgec::engine {

// Initialise ExecuTorch once and route its log. Safe to call from any thread, any number of times.
void start_runtime();

// While one exists, this thread's log lines are kept (the errors among them) instead of printed.
class LogScope {
 public:
  LogScope();
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
};

// The last error line kept on this thread since the outermost LogScope began; empty when there was none.
std::string last_log_error();

}  // namespace edgec::engine
