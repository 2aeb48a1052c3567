#include "checked_adapter.h"

#include <string>

#include "border.h"
#include "failure.h"
#include "guarded.h"
#include "kernels/parallel.h"
#include "threads.h"

namespace edgec::engine {
namespace {

constexpr int64_t kMostRank = 4096;

NumberFormat format_of(int32_t dtype) {
  switch (dtype) {
    case EDGEC_FLOAT32: return NumberFormat::kFloat32;
    case EDGEC_FLOAT16: return NumberFormat::kFloat16;
    case EDGEC_BFLOAT16: return NumberFormat::kBfloat16;
    default: throw Failure(EDGEC_REFUSED, "a change's numbers have the dtype " + std::to_string(dtype));
  }
}

int32_t dtype_of(NumberFormat format) {
  if (format == NumberFormat::kFloat32) return EDGEC_FLOAT32;
  return format == NumberFormat::kFloat16 ? EDGEC_FLOAT16 : EDGEC_BFLOAT16;
}

std::string size_of(int64_t rows, int64_t width) {
  return std::to_string(rows) + " x " + std::to_string(width);
}

void check_change(const NotedMatrices& matrices, const EdgecLowRank& change) {
  require(change.key, "a matrix's key");
  require(change.a, "a change's first matrix");
  require(change.b, "a change's second matrix");
  format_of(change.a_dtype);
  format_of(change.b_dtype);
  const std::string key = change.key;
  const auto found = matrices.find(key);
  if (found == matrices.end()) {
    throw Failure(EDGEC_REFUSED, "edgec's kernels multiply by no matrix \"" + key + "\" of this artifact");
  }
  const linear::Matrix& matrix = found->second.matrix;
  if (change.rows != matrix.rows || change.width != matrix.width) {
    const std::string given = size_of(change.rows, change.width), wanted = size_of(matrix.rows, matrix.width);
    throw Failure(EDGEC_REFUSED, "a change of " + given + " for the matrix \"" + key + "\", which has " + wanted);
  }
  if (change.rank < 1 || change.rank > kMostRank) {
    throw Failure(EDGEC_REFUSED, "a rank of " + std::to_string(change.rank) + "; 1 to " + std::to_string(kMostRank));
  }
}

}  // namespace

std::vector<EdgecLowRank> changes_of(const AdapterFile& file, const std::string& base) {
  if (file.base != base) {
    throw Failure(EDGEC_REFUSED, "the adapter was made for the artifact " + file.base.substr(0, 12) + ", not for this one");
  }
  std::vector<EdgecLowRank> changes;
  for (const AdapterModule& one : file.modules) {
    changes.push_back({one.key.c_str(), one.a.data, one.b.data, one.rank, one.width, one.rows,
                       dtype_of(one.a.format), dtype_of(one.b.format), static_cast<float>(one.scale)});
  }
  return changes;
}

std::shared_ptr<const Adapter> checked_adapter(const NotedMatrices& matrices, const EdgecLowRank* changes, size_t count) {
  auto adapter = std::make_shared<Adapter>();
  std::vector<LowRank*> made;
  int64_t floats = 0;
  for (size_t i = 0; i < count; i++) {
    const EdgecLowRank& change = changes[i];
    check_change(matrices, change);
    const auto [place, is_new] = adapter->try_emplace(change.key, change.rank, change.width, change.rows);
    if (!is_new) {
      throw Failure(EDGEC_REFUSED, "the matrix \"" + std::string(change.key) + "\" is changed twice");
    }
    made.push_back(&place->second);
    floats += change.rank * (change.width + change.rows);
  }
  const PoolInUse pool;
  for_units(static_cast<int64_t>(count), floats >= kFloatsWorthWaking, [&](int64_t i) {
    const EdgecLowRank& change = changes[i];
    made[static_cast<size_t>(i)]->fill(
        {change.a, format_of(change.a_dtype)}, {change.b, format_of(change.b_dtype)}, change.scale);
  });
  return adapter;
}

}  // namespace edgec::engine
