// Exceptions turned into a status and a text where the C interface ends.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>

#include "edgec/engine.h"
#include "failure.h"

namespace edgec::engine {

// Write a text for the caller into `capacity` bytes, cut where it is longer; null: not at all.
inline void tell(const char* text, char* error, size_t capacity) {
  if (error != nullptr && capacity > 0) {
    std::strncpy(error, text, capacity - 1);
    error[capacity - 1] = '\0';
  }
}

// Run `body` and turn an exception into a status and a text.
template <typename Body>
int guarded(Body&& body, char* error, size_t capacity) {
  try {
    body();
    return EDGEC_OK;
  } catch (const Failure& failure) {
    tell(failure.what(), error, capacity);
    return failure.status();
  } catch (const std::exception& failure) {
    tell(failure.what(), error, capacity);
    return EDGEC_FAILED;
  } catch (...) {
    tell("an unknown exception was thrown", error, capacity);
    return EDGEC_FAILED;
  }
}

}  // namespace edgec::engine
