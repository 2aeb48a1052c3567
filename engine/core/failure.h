// Failures inside the engine: thrown as exceptions, turned into status and text at the C interface.
#pragma once

#include <executorch/runtime/core/error.h>

#include <string>

#include "plain_failure.h"

namespace edgec::engine {

// Throw when ExecuTorch reports an error; the text ends with the last line of its log on this thread.
void check(executorch::runtime::Error error, const std::string& what);

}  // namespace edgec::engine
