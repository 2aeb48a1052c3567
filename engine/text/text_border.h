// Where the C interface of the text core ends, besides core/guarded.h: checked arrays.
#pragma once

#include <cstddef>

#include "core/guarded.h"

namespace edgec::text {

using engine::Failure;
using engine::guarded;
using engine::require;

// An array that is empty needs no place.
inline void require_array(const void* array, size_t count, const char* name) {
  if (count > 0) require(array, name);
}

}  // namespace edgec::text
