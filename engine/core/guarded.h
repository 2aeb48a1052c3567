// Exceptions turned into a status and a text where the C interfaces end.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "edgec/engine.h"
#include "plain_failure.h"

namespace edgec::engine {

// Write a text for the caller into `capacity` bytes, cut where it is longer; null: not at all.
inline void tell(const char* text, char* error, size_t capacity) {
  if (error != nullptr && capacity > 0) {
    std::strncpy(error, text, capacity - 1);
    error[capacity - 1] = '\0';
  }
}

// Refuse a null pointer that a caller gave for what `name` says.
inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Failure(EDGEC_REFUSED, std::string(name) + " is null");
}

// Run `body` and turn an exception into a status and a text.
template <typename Body>
int guarded(Body&& body, char* error, size_t capacity) {
  const auto failed = [&](const char* text, int status) {
    tell(text, error, capacity);
    return status;
  };
  try {
    body();
    return EDGEC_OK;
  } catch (const Failure& failure) {
    return failed(failure.what(), failure.status());
  } catch (const std::invalid_argument& refusal) {
    return failed(refusal.what(), EDGEC_REFUSED);
  } catch (const std::exception& failure) {
    return failed(failure.what(), EDGEC_FAILED);
  } catch (...) {
    return failed("an unknown exception was thrown", EDGEC_FAILED);
  }
}

}  // namespace edgec::engine
