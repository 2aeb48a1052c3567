// Exceptions turned into a status and a text where the C interfaces of vision and hears end; engine/guarded.h does so
// for the engine's own.
#pragma once

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "edgec/engine.h"

namespace edgec::runner {

// Why what a caller gave is refused, with a status of its C interface.
template <typename Status>
class StatedRefusal : public std::runtime_error {
 public:
  StatedRefusal(Status status, const std::string& why) : std::runtime_error(why), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw std::invalid_argument(std::string(name) + " is null");
}

// Run `body` and turn an exception, among them refusals of the type `Refused`, into a status and a text.
template <typename Refused, typename Body>
int stated(const Body& body, char* error, size_t capacity) {
  const auto tell = [&](const char* text, int status) {
    if (error != nullptr && capacity > 0) {
      std::strncpy(error, text, capacity - 1);
      error[capacity - 1] = '\0';
    }
    return status;
  };
  try {
    body();
    return EDGEC_OK;
  } catch (const Refused& refusal) {
    return tell(refusal.what(), refusal.status());
  } catch (const std::invalid_argument& refusal) {
    return tell(refusal.what(), EDGEC_REFUSED);
  } catch (const std::exception& failure) {
    return tell(failure.what(), EDGEC_FAILED);
  } catch (...) {
    return tell("an unknown exception was thrown", EDGEC_FAILED);
  }
}

}  // namespace edgec::runner
