// Registering a backend of edgec's with ExecuTorch.
#pragma once

#include <executorch/runtime/backend/interface.h>

namespace edgec {

// Registers a backend under this name; false where the process has one of that name already.
template <typename Backend>
bool register_absent_backend(const char* name) {
  if (executorch::runtime::get_backend_class(name) != nullptr) return false;
  static Backend backend;
  return executorch::runtime::register_backend({name, &backend}) == executorch::runtime::Error::Ok;
}

}  // namespace edgec
