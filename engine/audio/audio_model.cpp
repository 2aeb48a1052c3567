#include "audio_model.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace edgec::runner {
namespace {

constexpr int32_t kInt64 = 4, kFloat32 = 6;

std::string packed_of(const std::string& packed, const char* name) {
  return packed.empty() ? "" : packed + "." + name;
}

EdgecTensor indices(const int64_t* values, int64_t count) {
  return {const_cast<int64_t*>(values), kInt64, 1, {count}};
}

}  // namespace

AudioModel::AudioModel(const std::string& artifact, const std::string& packed, Method forward)
    : encode_(artifact, "encode", packed_of(packed, "encode")),
      cross_(artifact, "cross", packed_of(packed, "cross")),
      forward_(std::move(forward)) {
  if (forward_.max_tokens() < 1) {
    throw std::runtime_error("the method forward is not a decoder's");
  }
}

void AudioModel::read(const float* source, const std::vector<int64_t>& sizes) {
  EdgecTensor input = {const_cast<float*>(source), kFloat32, static_cast<int32_t>(sizes.size()), {}};
  std::copy(sizes.begin(), sizes.end(), input.sizes);
  memory_.clear();
  memory_ = cross_({encode_({input}).front()});
}

TokenLogits AudioModel::feed(const int64_t* tokens, int64_t count, int64_t start) {
  if (memory_.empty() || count < 1) {
    throw std::runtime_error(count < 1 ? "there are no tokens" : "nothing was read yet");
  }
  TokenLogits logits;
  const int64_t most = forward_.max_tokens();
  for (int64_t at = 0, size = 0; at < count; at += size) {
    size = std::min(most, count - at);
    std::vector<int64_t> positions(static_cast<size_t>(size));
    std::iota(positions.begin(), positions.end(), start + at);
    const int64_t last = size - 1;
    std::vector<EdgecTensor> inputs = {
        {const_cast<int64_t*>(tokens + at), kInt64, 2, {1, size}}, indices(positions.data(), size)};
    inputs.insert(inputs.end(), memory_.begin(), memory_.end());
    inputs.push_back(indices(&last, 1));
    const EdgecTensor output = forward_(inputs).front();
    if (output.dtype != kFloat32 || output.rank != 3 || output.sizes[0] != 1 || output.sizes[1] != 1) {
      throw std::runtime_error("the method's first output is not float32 [1, 1, vocabulary]");
    }
    logits = {static_cast<const float*>(output.data), output.sizes[2]};
  }
  return logits;
}

}  // namespace edgec::runner
