// Where the C interface of the text core ends: checked pointers, and exceptions turned into a status and a text.
#pragma once

#include <cstddef>

#include "core/plain_failure.h"
#include "core/stated.h"

namespace edgec::text {

using engine::Failure;
using runner::require;

// An array that is empty needs no place.
inline void require_array(const void* array, size_t count, const char* name) {
  if (count > 0) require(array, name);
}

// Run `body` and turn an exception into a status and a text.
template <typename Body>
int guarded(const Body& body, char* error, size_t capacity) {
  return runner::stated<Failure>(body, error, capacity);
}

}  // namespace edgec::text
