// Where the C interface of the text core ends.
#pragma once

#include <cstddef>

#include "core/guarded.h"
#include "core/plain_failure.h"

namespace edgec::text {

using engine::Failure;
using engine::guarded;
using engine::require;

// An array that is empty needs no place.
inline void require_array(const void* array, size_t count, const char* name) {
  if (count > 0) require(array, name);
}

}  // namespace edgec::text
