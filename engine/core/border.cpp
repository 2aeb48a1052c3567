#include "border.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <algorithm>
#include <cstdint>

#include "failure.h"

namespace edgec::engine {
namespace {

constexpr size_t kDigestLetters = 64;
// The most bytes of a tensor: no machine holds more, and products of sizes stay within 64 bits.
constexpr int64_t kMostBytes = int64_t{1} << 46;

void refuse_unless(bool fine, const std::string& text) {
  if (!fine) {
    throw Failure(EDGEC_REFUSED, text);
  }
}

int64_t count_of(const EdgecTensor& tensor) {
  int64_t count = 1;
  for (int32_t dim = 0; dim < tensor.rank; ++dim) {
    count *= tensor.sizes[dim];
  }
  return count;
}

// Throws Failure unless all values lie in 0..end-1.
void check_range(const EdgecTensor& tensor, int64_t end, const std::string& what) {
  refuse_unless(tensor.dtype == static_cast<int32_t>(executorch::aten::ScalarType::Long), what + " are not int64");
  const auto* values = static_cast<const int64_t*>(tensor.data);
  const auto inside = [end](int64_t value) { return value >= 0 && value < end; };
  refuse_unless(
      std::all_of(values, values + count_of(tensor), inside), what + " lie outside 0.." + std::to_string(end - 1));
}

}  // namespace

void check_tensor(const EdgecTensor& tensor, size_t index) {
  const std::string name = "input " + std::to_string(index);
  const auto type = static_cast<executorch::aten::ScalarType>(tensor.dtype);
  const bool named = tensor.dtype >= 0 && tensor.dtype <= INT8_MAX && executorch::runtime::isValid(type);
  refuse_unless(named, name + " has an unknown dtype: " + std::to_string(tensor.dtype));
  refuse_unless(
      tensor.rank >= 0 && tensor.rank <= EDGEC_MAX_RANK,
      name + " has a rank outside 0.." + std::to_string(EDGEC_MAX_RANK));
  int64_t bytes = static_cast<int64_t>(executorch::runtime::elementSize(type));
  for (int32_t dim = 0; dim < tensor.rank; ++dim) {
    const int64_t size = tensor.sizes[dim];
    refuse_unless(size >= 1 && size <= INT32_MAX && size <= kMostBytes / bytes, name + " has an impossible size: " +
                                                                                     std::to_string(size));
    bytes *= size;
  }
  refuse_unless(tensor.data != nullptr, name + " has no data");
}

void check_decoder_call(const EdgecTensor* inputs, size_t count, const EdgecModelInfo& model) {
  const EdgecTensor& chosen = inputs[count - 1];
  const int64_t tokens = count_of(inputs[0]), rows = count_of(chosen);
  refuse_unless(tokens == count_of(inputs[1]), "the number of positions differs from the number of tokens");
  refuse_unless(
      tokens <= model.max_tokens && rows <= model.max_rows,
      "a call takes " + std::to_string(model.max_tokens) + " tokens and " + std::to_string(model.max_rows) + " rows");
  check_range(inputs[0], INT32_MAX, "the tokens");
  check_range(inputs[1], INT32_MAX, "the positions");
  check_range(chosen, tokens, "the rows");
}

void check_positions(const EdgecTensor& positions, const EdgecModelInfo& model) {
  refuse_unless(
      count_of(positions) <= model.max_tokens, "a call takes " + std::to_string(model.max_tokens) + " tokens");
  check_range(positions, INT32_MAX, "the positions");
}

EdgecTensor integers(const int64_t* values, size_t count, bool batched) {
  const auto dtype = static_cast<int32_t>(executorch::aten::ScalarType::Long);
  EdgecTensor tensor{const_cast<int64_t*>(values), dtype, batched ? 2 : 1, {}};
  tensor.sizes[0] = batched ? 1 : static_cast<int64_t>(count);
  tensor.sizes[1] = batched ? static_cast<int64_t>(count) : 0;
  return tensor;
}

bool is_digest(const std::string& text) {
  const bool hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex && !text.empty() && text.size() <= kDigestLetters;
}

}  // namespace edgec::engine
