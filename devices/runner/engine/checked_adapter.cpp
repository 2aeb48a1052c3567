#include "checked_adapter.h"

#include <string>

#include "border.h"
#include "failure.h"

namespace edgec::engine {
namespace {

constexpr int64_t kMostRank = 4096;

std::string size_of(int64_t rows, int64_t width) {
  return std::to_string(rows) + " x " + std::to_string(width);
}

void check_change(const MatrixSizes& matrices, const EdgecLowRank& change) {
  require(change.key, "a matrix's key");
  require(change.a, "a change's first matrix");
  require(change.b, "a change's second matrix");
  const std::string key = change.key;
  const auto found = matrices.find(key);
  if (found == matrices.end()) {
    throw Failure(EDGEC_REFUSED, "edgec's kernels multiply by no matrix \"" + key + "\" of this artifact");
  }
  const MatrixSize& size = found->second;
  if (change.rows != size.rows || change.width != size.width) {
    const std::string given = size_of(change.rows, change.width), wanted = size_of(size.rows, size.width);
    throw Failure(EDGEC_REFUSED, "a change of " + given + " for the matrix \"" + key + "\", which has " + wanted);
  }
  if (change.rank < 1 || change.rank > kMostRank) {
    throw Failure(EDGEC_REFUSED, "a rank of " + std::to_string(change.rank) + "; 1 to " + std::to_string(kMostRank));
  }
}

}  // namespace

std::shared_ptr<const Adapter> checked_adapter(const MatrixSizes& matrices, const EdgecLowRank* changes, size_t count) {
  auto adapter = std::make_shared<Adapter>();
  for (size_t i = 0; i < count; i++) {
    const EdgecLowRank& change = changes[i];
    check_change(matrices, change);
    if (!adapter->try_emplace(change.key, change.a, change.b, change.rank, change.width, change.rows).second) {
      throw Failure(EDGEC_REFUSED, "the matrix \"" + std::string(change.key) + "\" is changed twice");
    }
  }
  return adapter;
}

}  // namespace edgec::engine
