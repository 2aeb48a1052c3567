#include "input_embeds.h"

#include <algorithm>
#include <string>

#include "failure.h"

namespace edgec::engine {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::MethodMeta;

constexpr size_t kParts = 3;
constexpr int32_t kBool = 11, kInt64 = 4, kFloat32 = 6;

void refuse_unless(bool fine, const std::string& text) {
  if (!fine) throw Failure(EDGEC_REFUSED, text);
}

bool is_input(const MethodMeta& meta, size_t input, ScalarType type, size_t rank) {
  const auto tensor = meta.input_tensor_meta(input);
  return tensor.ok() && tensor->scalar_type() == type && tensor->sizes().size() == rank;
}

// A tensor over a vector's values.
template <typename Value>
EdgecTensor tensor(std::vector<Value>& values, int32_t dtype, std::initializer_list<int64_t> sizes) {
  EdgecTensor made{values.data(), dtype, static_cast<int32_t>(sizes.size()), {}};
  std::copy(sizes.begin(), sizes.end(), made.sizes);
  return made;
}

}  // namespace

EmbedsInputs embeds_inputs(const MethodMeta& meta) {
  constexpr size_t kFeatures = 2, kSeen = 3;
  if (meta.num_inputs() < kSeen + 2 || !is_input(meta, kFeatures, ScalarType::Float, 3) ||
      !is_input(meta, kSeen, ScalarType::Bool, 3)) {
    return {};
  }
  EmbedsInputs found;
  size_t next = kSeen + 1;
  const size_t wanted = meta.num_inputs() - 1;
  found.span_end = next < wanted && is_input(meta, next, ScalarType::Long, 1);
  next += found.span_end ? 1 : 0;
  found.mrope = next < wanted && is_input(meta, next, ScalarType::Long, 2);
  next += found.mrope ? 1 : 0;
  const auto sizes = meta.input_tensor_meta(kFeatures)->sizes();
  found.width = next == wanted ? sizes[2] : 0;
  return found.width > 0 ? found : EmbedsInputs{};
}

void InputEmbeds::check(const EdgecInputEmbeds& given) const {
  refuse_unless(given.width == inputs_.width, "the rows have another width than the decoder's");
  refuse_unless(
      given.token_count >= 0 && given.token_count <= INT32_MAX && given.count >= 0 &&
          given.count <= given.token_count,
      "there are more rows than tokens");
  refuse_unless(given.count == 0 || (given.embeds != nullptr && given.positions != nullptr), "the rows are null");
  refuse_unless(inputs_.span_end || given.span_end == nullptr, "the decoder has no input for what tokens see");
  refuse_unless(inputs_.mrope || given.mrope == nullptr, "the decoder has no input for positions of three parts");
  for (int64_t row = 0; row < given.count; ++row) {
    const int64_t least = row == 0 ? 0 : given.positions[row - 1] + 1;
    refuse_unless(
        given.positions[row] >= least && given.positions[row] < given.token_count,
        "the rows' places do not rise within the tokens");
  }
  for (int64_t at = 0; given.span_end != nullptr && at < given.token_count; ++at) {
    refuse_unless(given.span_end[at] >= at && given.span_end[at] < given.token_count, "a token sees no token that there is");
  }
  const auto is_position = [](int64_t value) { return value >= 0 && value <= INT32_MAX; };
  const int64_t parts = given.mrope == nullptr ? 0 : static_cast<int64_t>(kParts) * given.token_count;
  refuse_unless(
      is_position(given.mrope_next) && std::all_of(given.mrope, given.mrope + parts, is_position),
      "a position of three parts is out of range");
}

void InputEmbeds::put(const EdgecInputEmbeds& given) {
  check(given);
  const auto length = static_cast<size_t>(given.token_count), rows = static_cast<size_t>(given.count);
  std::vector<int64_t> row_of(length, -1);
  for (size_t row = 0; row < rows; ++row) row_of[static_cast<size_t>(given.positions[row])] = static_cast<int64_t>(row);
  std::vector<float> copied(given.embeds, given.embeds + rows * static_cast<size_t>(inputs_.width));
  const size_t reaches = given.span_end == nullptr ? 0 : length, parts = given.mrope == nullptr ? 0 : kParts * length;
  std::vector<int64_t> span_end(given.span_end, given.span_end + reaches), mrope(given.mrope, given.mrope + parts);
  length_ = given.token_count;
  mrope_next_ = given.mrope_next;
  rows_.swap(copied);
  row_of_.swap(row_of);
  span_end_.swap(span_end);
  mrope_.swap(mrope);
}

void InputEmbeds::forget() {
  *this = InputEmbeds(inputs_);
}

int64_t InputEmbeds::span_end(int64_t position) const {
  return position < length_ && !span_end_.empty() ? span_end_[static_cast<size_t>(position)] : position;
}

int64_t InputEmbeds::mrope(size_t part, int64_t position) const {
  if (mrope_.empty()) return position;
  if (position >= length_) return mrope_next_ + (position - length_);
  return mrope_[part * static_cast<size_t>(length_) + static_cast<size_t>(position)];
}

int64_t InputEmbeds::call_size(int64_t start, int64_t end, int64_t most) const {
  int64_t size = 0, furthest = start;
  for (int64_t at = start; at < end && at - start < most; ++at) {
    furthest = std::max(furthest, span_end(at));
    // Nothing before it sees beyond this token.
    if (furthest <= at) size = at - start + 1;
  }
  return size;
}

void InputEmbeds::check_span_end(const int64_t* positions, size_t count) const {
  if (span_end_.empty()) return;
  const int64_t last = *std::max_element(positions, positions + count);
  const auto within = [&](int64_t position) { return span_end(position) <= last; };
  refuse_unless(
      std::all_of(positions, positions + count, within), "the call ends before what its tokens see; ask call_size");
}

size_t InputEmbeds::feed(const int64_t* positions, size_t count, EdgecTensor* out) {
  check_span_end(positions, count);
  const auto width = static_cast<size_t>(inputs_.width);
  const auto tokens = static_cast<int64_t>(count);
  input_embeds_.assign(count * width, 0.0F);
  embeds_mask_.assign(count, 0);
  for (size_t at = 0; at < count; ++at) {
    const int64_t row = positions[at] < length_ ? row_of_[static_cast<size_t>(positions[at])] : -1;
    if (row < 0) continue;
    const float* values = rows_.data() + static_cast<size_t>(row) * width;
    std::copy(values, values + width, input_embeds_.data() + at * width);
    embeds_mask_[at] = 1;
  }
  size_t made = 0;
  out[made++] = tensor(input_embeds_, kFloat32, {1, tokens, inputs_.width});
  out[made++] = tensor(embeds_mask_, kBool, {1, tokens, 1});
  if (inputs_.span_end) {
    span_ends_.resize(count);
    std::transform(positions, positions + count, span_ends_.begin(), [this](int64_t at) { return span_end(at); });
    out[made++] = tensor(span_ends_, kInt64, {tokens});
  }
  if (inputs_.mrope) {
    parts_.resize(kParts * count);
    for (size_t part = 0; part < kParts; ++part) {
      for (size_t at = 0; at < count; ++at) parts_[part * count + at] = mrope(part, positions[at]);
    }
    out[made++] = tensor(parts_, kInt64, {static_cast<int64_t>(kParts), tokens});
  }
  return made;
}

}  // namespace edgec::engine
