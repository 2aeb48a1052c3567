// The engine's failures for code that is compiled without ExecuTorch, too.
#pragma once

#include <stdexcept>
#include <string>

#include "edgec/engine.h"

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

}  // namespace edgec::engine
