// Failures inside the engine: thrown as exceptions, turned into status and text at the C interface.
#pragma once

#include <executorch/runtime/core/error.h>

#include <stdexcept>
#include <string>

#include "c_api.h"

namespace edgec::engine {

// A failure of the engine with a text for the user; `status` distinguishes a refusal (the caller's fault) from a
// failure.
class Failure : public std::runtime_error {
 public:
  Failure(EdgecStatus status, const std::string& text) : std::runtime_error(text), status_(status) {}
  EdgecStatus status() const { return status_; }

 private:
  EdgecStatus status_;
};

// Throw when ExecuTorch reports an error; the text ends with the last line of its log on this thread.
void check(executorch::runtime::Error error, const std::string& what);

}  // namespace edgec::engine
