// One method of an artifact over the engine's C interface, for the runner's speech and its vision.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgec/engine.h"

namespace edgec::runner {

// One method of an artifact with a session. Throws std::runtime_error.
class Method {
 public:
  // `packed`: the file of its packed weights, or empty.
  Method(const std::string& artifact, const char* name, const std::string& packed);
  // A session on a model that the caller has opened and closes afterwards.
  Method(EdgecModel* model, bool profile);

  // Outputs stay where they are until the next call.
  std::vector<EdgecTensor> operator()(const std::vector<EdgecTensor>& inputs);
  int64_t max_tokens() const;
  // Times per instruction since the last call; empty without profile.
  std::string profile();

 private:
  std::unique_ptr<EdgecModel, decltype(&edgec_model_close)> own_;  // null: the caller's
  EdgecModel* model_;
  std::unique_ptr<EdgecSession, decltype(&edgec_session_close)> session_;
};

}  // namespace edgec::runner
