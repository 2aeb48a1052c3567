// Low-rank changes of a program's matrices (LoRA adapters): y += b (a x), before what follows the product in its group.
//
// A token's result depends neither on the tokens beside it nor on the number of threads nor on the width of vectors:
// a dot product has 16 partial sums, added in a fixed order, and the columns of b are added one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "region.h"

namespace edgec {

enum class NumberFormat { kFloat32, kFloat16, kBfloat16 };

constexpr int64_t bytes_of(NumberFormat format) { return format == NumberFormat::kFloat32 ? 4 : 2; }

// Numbers one after the other, at any address.
struct Numbers {
  const void* data;
  NumberFormat format;
};

// The change of one matrix. Rows of `a` and columns of `b` are filled up with zeros to whole runs of kLanes.
struct LowRank {
  static constexpr int64_t kLanes = 16;

  // Room for it, not written yet.
  LowRank(int64_t rank, int64_t width, int64_t rows);

  // from_a [rank][width], from_b [rows][rank], which is multiplied by `scale`. Allocates nothing and throws nothing.
  void fill(const Numbers& from_a, const Numbers& from_b, float scale) noexcept;

  int64_t rank, width, rows;
  int64_t a_stride, b_stride;
  std::unique_ptr<float[]> a;  // [rank][a_stride]
  std::unique_ptr<float[]> b;  // [rank][b_stride]
};

// The changes of a program's matrices, by their keys among the program's named data.
using Adapter = std::map<std::string, LowRank>;

// While it lives, regions that this thread runs use the adapter; null: none.
class AdapterScope {
 public:
  explicit AdapterScope(const Adapter* adapter);
  ~AdapterScope();
  AdapterScope(const AdapterScope&) = delete;
  AdapterScope& operator=(const AdapterScope&) = delete;
};

// What the adapter in force adds to the products of one group, for tokens x [tokens][width].
class AddedProducts {
 public:
  AddedProducts(const std::vector<Product>& products, const float* x, int64_t tokens);

  // Add to results [token_count][stride] of a product: its rows first_row.., a multiple of LowRank::kLanes. The columns
  // up to the next such multiple are written too.
  void add(size_t product, int64_t first_row, int64_t rows, int64_t first_token, int64_t token_count, float* results,
           int64_t stride) const;

 private:
  struct Added {
    const LowRank* change;  // null: the product stays as it is
    const float* narrow;    // a x, [tokens][rank]
  };
  std::vector<Added> added_;
};

// A matrix as a region's kernels read it.
struct NotedMatrix {
  linear::Matrix matrix;
  size_t turn;  // how many others are read before it
};

// The matrices of a program's regions, by their keys.
using NotedMatrices = std::map<std::string, NotedMatrix>;

// While it lives, the matrices of regions that this thread loads are noted in `matrices`.
class NotedMatricesScope {
 public:
  explicit NotedMatricesScope(NotedMatrices& matrices);
  ~NotedMatricesScope();
  NotedMatricesScope(const NotedMatricesScope&) = delete;
  NotedMatricesScope& operator=(const NotedMatricesScope&) = delete;
};

// Note a region's matrices where a scope asks for them.
void note_matrices(const Region& region);

}  // namespace edgec
