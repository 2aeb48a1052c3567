// The engine's failures for code that is compiled without ExecuTorch, too.
#pragma once

#include <stdexcept>
#include <string>

#include "edgec/engine.h"

namespace edgec::engine {

// A failure with a text for the user. `status` is the one that the C interface returns: EDGEC_REFUSED (the caller's
// fault), EDGEC_FAILED, or a reason of its own that audio.h and vision.h name.
class Failure : public std::runtime_error {
 public:
  Failure(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

}  // namespace edgec::engine
