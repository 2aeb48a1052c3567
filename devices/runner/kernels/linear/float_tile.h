// Tokens in float x rows of few bits, the same for all instruction sets. Include after EDGEC_BEGIN_ISA and headers with:
//
//     Floats                      kVectorRows numbers, of one row each; a block has kBlockRows rows
//     no_floats, same_floats, plus, fused, load_floats, store_floats, load_bfloat16
//     FloatCodes<bits>            codes as floats: value = fma(code, step, start(matrix)), exact
//     add_products(values, x, sums)       sums[j] = fma(values[j], x[j], sums[j]), j < 4
//     kFloatTokens                tokens in a tile, whose 4 sums each stay in registers
#pragma once

#include "kernel.h"

namespace edgec::linear {
namespace {

constexpr int64_t kPanelSlices = 4;                             // whose values stay in the first cache
constexpr int64_t kPanelFloats = (kSlice + 1) * kVectorRows;  // of a slice: its values and the scales

// The slices of rows of a block, one after the other, as they are stored: vector kPart of the rows.
template <int kBits, int kPart>
class StoredSlices {
 public:
  EDGEC_INLINE StoredSlices(const Matrix& matrix, const uint8_t* block)
      : step_(same_floats(static_cast<float>(matrix.step))), start_(same_floats(FloatCodes<kBits>::start(matrix))),
        codes_(block), by_group_(matrix.group != 0), left_(matrix.group_slices()), slices_(left_),
        group_bytes_(matrix.group_bytes()) {
    constexpr int64_t kFirst = kPart * kVectorRows;
    const int64_t codes = left_ * kSliceBytes;
    scales_ = block + codes + kFirst * (by_group_ ? 2 : 4);
  }

  EDGEC_INLINE Floats scales() const {
    return by_group_ ? load_bfloat16(scales_) : load_floats(reinterpret_cast<const float*>(scales_));
  }

  EDGEC_INLINE void read(int n, Floats (&values)[4]) const {
    FloatCodes<kBits>::template read<kPart>(codes_, n, values);
    EDGEC_UNROLL
    for (int j = 0; j < 4; j++) values[j] = fused(values[j], step_, start_);
  }

  EDGEC_INLINE void next() {
    codes_ += kSliceBytes;
    if (--left_ != 0) return;
    codes_ += kBlockRows * 2;
    scales_ += group_bytes_;
    left_ = slices_;
  }

 private:
  static constexpr int64_t kSliceBytes = kBlockRows * kSlice * kBits / 8;

  Floats step_, start_;
  const uint8_t *codes_, *scales_;
  bool by_group_;
  int64_t left_, slices_, group_bytes_;  // left_: in the group, this one among them
};

// The same slices as fill_panel() wrote them.
class PanelSlices {
 public:
  explicit EDGEC_INLINE PanelSlices(const float* panel) : at_(panel) {}

  EDGEC_INLINE Floats scales() const { return load_floats(at_ + kSlice * kVectorRows); }

  EDGEC_INLINE void read(int n, Floats (&values)[4]) const {
    EDGEC_UNROLL
    for (int j = 0; j < 4; j++) values[j] = load_floats(at_ + (4 * n + j) * kVectorRows);
  }

  EDGEC_INLINE void next() { at_ += kPanelFloats; }

 private:
  const float* at_;
};

template <class Slices>
void fill_panel(Slices& slices, int64_t count, float* panel) {
  for (; count != 0; count--, slices.next(), panel += kPanelFloats) {
    EDGEC_UNROLL
    for (int n = 0; n < kSlice / 4; n++) {
      Floats values[4];
      slices.read(n, values);
      EDGEC_UNROLL
      for (int j = 0; j < 4; j++) store_floats(panel + (4 * n + j) * kVectorRows, values[j]);
    }
    store_floats(panel + kSlice * kVectorRows, slices.scales());
  }
}

// Some tokens, and where the results of a vector of rows go.
struct FloatTile {
  const float* x;
  int64_t x_stride;
  float* out;
  int64_t out_stride;
  int64_t tokens;

  EDGEC_INLINE FloatTile after(int64_t tokens_done) const {
    return {x + tokens_done * x_stride, x_stride, out + tokens_done * out_stride, out_stride, tokens - tokens_done};
  }
};

template <int kTokens, class Slices>
EDGEC_INLINE void add_slice(const Slices& slices, const float* x, int64_t x_stride, Floats (&sums)[kTokens]) {
  Floats parts[kTokens][4];
  EDGEC_UNROLL
  for (int i = 0; i < kTokens * 4; i++) parts[i / 4][i % 4] = no_floats();
  EDGEC_UNROLL
  for (int n = 0; n < kSlice / 4; n++) {
    Floats values[4];
    slices.read(n, values);
    EDGEC_UNROLL
    for (int t = 0; t < kTokens; t++) add_products(values, x + t * x_stride + n * 4, parts[t]);
  }
  const Floats scales = slices.scales();
  EDGEC_UNROLL
  for (int t = 0; t < kTokens; t++) {
    sums[t] = fused(plus(plus(parts[t][0], parts[t][1]), plus(parts[t][2], parts[t][3])), scales, sums[t]);
  }
}

// Adds `count` slices to the results of kTokens tokens.
template <int kTokens, class Slices>
void add_tile(Slices slices, int64_t count, const FloatTile& tile) {
  Floats sums[kTokens];
  EDGEC_UNROLL
  for (int t = 0; t < kTokens; t++) sums[t] = load_floats(tile.out + t * tile.out_stride);
  const float* x = tile.x;
  for (; count != 0; count--, slices.next(), x += kSlice) add_slice<kTokens>(slices, x, tile.x_stride, sums);
  EDGEC_UNROLL
  for (int t = 0; t < kTokens; t++) store_floats(tile.out + t * tile.out_stride, sums[t]);
}

template <int kTokens = kFloatTokens>
void add_panel(const float* panel, int64_t count, const FloatTile& tile) {
  if (tile.tokens >= kTokens) return add_tile<kTokens>(PanelSlices(panel), count, tile);
  if constexpr (kTokens > 1) add_panel<kTokens - 1>(panel, count, tile);
}

// One token reads codes as they lie; more share values that were unpacked once.
template <int kBits, int kPart>
void multiply_vector(const Matrix& matrix, const uint8_t* block, const FloatTile& tile) {
  for (int64_t t = 0; t < tile.tokens; t++) store_floats(tile.out + t * tile.out_stride, no_floats());
  StoredSlices<kBits, kPart> slices(matrix, block);
  if (tile.tokens == 1) return add_tile<1>(slices, matrix.slices(), tile);
  alignas(64) float panel[kPanelSlices * kPanelFloats];
  FloatTile window = tile;
  for (int64_t left = matrix.slices(); left > 0; left -= kPanelSlices, window.x += kPanelSlices * kSlice) {
    const int64_t count = left < kPanelSlices ? left : kPanelSlices;
    fill_panel(slices, count, panel);
    for (int64_t done = 0; done < window.tokens; done += kFloatTokens) add_panel(panel, count, window.after(done));
  }
}

template <int kBits, int kPart = 0>
void multiply_rows(const Matrix& matrix, const uint8_t* block, FloatTile tile) {
  multiply_vector<kBits, kPart>(matrix, block, tile);
  tile.out += kVectorRows;
  if constexpr ((kPart + 1) * kVectorRows < kBlockRows) multiply_rows<kBits, kPart + 1>(matrix, block, tile);
}

void multiply_floats(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                     int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const int64_t x_stride = tokens.slices * kSlice;
  FloatTile tile{tokens.floats + first_token * x_stride, x_stride, out, stride, token_count};
  for (int64_t i = first_block; i < first_block + blocks; i++, tile.out += kBlockRows) {
    const uint8_t* block = matrix.block(i);
    if (matrix.bits == 2) multiply_rows<2>(matrix, block, tile);
    if (matrix.bits == 3) multiply_rows<3>(matrix, block, tile);
    if (matrix.bits == 4) multiply_rows<4>(matrix, block, tile);
    if (matrix.bits == 8) multiply_rows<8>(matrix, block, tile);
  }
}

}  // namespace
}  // namespace edgec::linear
