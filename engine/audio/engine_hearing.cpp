// A bundle that hears whose artifact edgec's engine executes.
#include <memory>

#include "hearing.h"
#include "hearing_model.h"

using edgec::runner::HearingModel;
using edgec::runner::Method;

EdgecHearing* edgec_hearing_open(const char* bundle, const char* artifact, char* error, size_t capacity) {
  const auto make = [&] {
    edgec::runner::require(artifact, "the artifact's path");
    return std::make_unique<HearingModel>(artifact, "", Method(artifact, "forward", ""));
  };
  return edgec::runner::opened_hearing(bundle, make, error, capacity);
}
