#include "method.h"

#include <stdexcept>

namespace edgec::runner {
namespace {

constexpr size_t kErrorLetters = 1024;

template <typename Handle>
Handle* made(Handle* handle, const char* error) {
  if (handle == nullptr) {
    throw std::runtime_error(error);
  }
  return handle;
}

EdgecModel* opened_model(const std::string& artifact, const char* name, const std::string& packed) {
  char error[kErrorLetters] = "";
  EdgecModel* model =
      edgec_model_open(artifact.c_str(), name, packed.empty() ? nullptr : packed.c_str(), error, sizeof error);
  return made(model, error);
}

EdgecSession* opened_session(EdgecModel* model, bool profile) {
  char error[kErrorLetters] = "";
  EdgecSession* session = edgec_session_open(model, profile ? 1 : 0, error, sizeof error);
  return made(session, error);
}

}  // namespace

Method::Method(const std::string& artifact, const char* name, const std::string& packed)
    : own_(opened_model(artifact, name, packed), edgec_model_close),
      model_(own_.get()),
      session_(opened_session(model_, false), edgec_session_close) {}

Method::Method(EdgecModel* model, bool profile)
    : own_(nullptr, edgec_model_close),
      model_(model),
      session_(opened_session(model, profile), edgec_session_close) {}

std::vector<EdgecTensor> Method::operator()(const std::vector<EdgecTensor>& inputs) {
  char error[kErrorLetters] = "";
  if (edgec_session_run(session_.get(), inputs.data(), inputs.size(), error, sizeof error) != EDGEC_OK) {
    throw std::runtime_error(error);
  }
  std::vector<EdgecTensor> outputs(edgec_session_output_count(session_.get()));
  for (size_t index = 0; index < outputs.size(); ++index) {
    edgec_session_output(session_.get(), index, &outputs[index]);
  }
  if (outputs.empty()) {
    throw std::runtime_error("a method of the model returns nothing");
  }
  return outputs;
}

int64_t Method::max_tokens() const {
  EdgecModelInfo info{};
  edgec_model_info(model_, &info);
  return info.max_tokens;
}

std::string Method::profile() {
  const char* text = edgec_session_profile(session_.get());
  const std::string copy = text == nullptr ? "" : text;
  edgec_session_profile_reset(session_.get());
  return copy;
}

}  // namespace edgec::runner
