// Tokens in float x rows of few bits, the same for all instruction sets. Include after EDGEC_BEGIN_ISA.
#pragma once

#include "decode.h"
#include "float_codes.h"
#include "kernel.h"
#include "minimums.h"

namespace edgec::linear {
namespace {

constexpr int64_t kPanelSlices = 4;                             // whose values stay in the first cache
constexpr int64_t kPanelFloats = (kSlice + 2) * kVectorRows;  // of a slice: its values and the scales of its halves

// The slices of rows of a block, one after the other, as they are stored: vector kPart of the rows. `decoded`: the scales
// [slice or half][kBlockRows], where the matrix has such.
template <int kBits, int kPart>
class StoredSlices {
 public:
  EDGEC_INLINE StoredSlices(const Matrix& matrix, const uint8_t* block, const float* decoded)
      : step_(same_floats(static_cast<float>(matrix.step))), start_(same_floats(FloatCodes<kBits>::start(matrix))),
        codes_(block), in_runs_(matrix.scales == Scales::kBfloat16),
        next_decoded_(decoded == nullptr ? 0 : kBlockRows * (matrix.has_halves() ? 2 : 1)), left_(matrix.run_slices()),
        slices_(left_), run_bytes_(matrix.run_bytes()) {
    constexpr int64_t kFirst = kPart * kVectorRows;
    scales_ = block + left_ * kSliceBytes + kFirst * (in_runs_ ? 2 : 4);
    decoded_ = decoded == nullptr ? reinterpret_cast<const float*>(scales_) : decoded + kFirst;
  }

  EDGEC_INLINE Floats scales() const { return in_runs_ ? load_bfloat16(scales_) : load_floats(decoded_); }

  EDGEC_INLINE Floats upper_scales() const { return load_floats(decoded_ + kBlockRows); }

  EDGEC_INLINE void read(int n, Floats (&values)[4]) const {
    FloatCodes<kBits>::template read<kPart>(codes_, n, values);
    EDGEC_UNROLL
    for (int j = 0; j < 4; j++) values[j] = fused(values[j], step_, start_);
  }

  EDGEC_INLINE void next() {
    codes_ += kSliceBytes;
    decoded_ += next_decoded_;
    if (--left_ != 0) return;
    codes_ += kBlockRows * 2;
    scales_ += run_bytes_;
    left_ = slices_;
  }

 private:
  static constexpr int64_t kSliceBytes = kBlockRows * kSlice * kBits / 8;

  Floats step_, start_;
  const uint8_t *codes_, *scales_;
  const float* decoded_;  // or the scales of rows
  bool in_runs_;
  int64_t next_decoded_;
  int64_t left_, slices_, run_bytes_;  // left_: in the run, this one among them
};

// The same slices as fill_panel() wrote them.
class PanelSlices {
 public:
  explicit EDGEC_INLINE PanelSlices(const float* panel) : at_(panel) {}

  EDGEC_INLINE Floats scales() const { return load_floats(at_ + kSlice * kVectorRows); }

  EDGEC_INLINE Floats upper_scales() const { return load_floats(at_ + (kSlice + 1) * kVectorRows); }

  EDGEC_INLINE void read(int n, Floats (&values)[4]) const {
    EDGEC_UNROLL
    for (int j = 0; j < 4; j++) values[j] = load_floats(at_ + (4 * n + j) * kVectorRows);
  }

  EDGEC_INLINE void next() { at_ += kPanelFloats; }

 private:
  const float* at_;
};

// kHalves: the halves of a slice have scales of their own.
template <bool kHalves, class Slices>
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
    if constexpr (kHalves) store_floats(panel + (kSlice + 1) * kVectorRows, slices.upper_scales());
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

// Values 4 * kFirst .. 4 * (kFirst + kCount) - 1 of a slice, which share scales.
template <int kTokens, int kFirst, int kCount, class Slices>
EDGEC_INLINE void add_values(const Slices& slices, const float* x, int64_t x_stride, Floats scales,
                             Floats (&sums)[kTokens]) {
  Floats parts[kTokens][4];
  EDGEC_UNROLL
  for (int i = 0; i < kTokens * 4; i++) parts[i / 4][i % 4] = no_floats();
  EDGEC_UNROLL
  for (int n = kFirst; n < kFirst + kCount; n++) {
    Floats values[4];
    slices.read(n, values);
    EDGEC_UNROLL
    for (int t = 0; t < kTokens; t++) add_products(values, x + t * x_stride + n * 4, parts[t]);
  }
  EDGEC_UNROLL
  for (int t = 0; t < kTokens; t++) {
    sums[t] = fused(plus(plus(parts[t][0], parts[t][1]), plus(parts[t][2], parts[t][3])), scales, sums[t]);
  }
}

template <int kTokens, bool kHalves, class Slices>
EDGEC_INLINE void add_slice(const Slices& slices, const float* x, int64_t x_stride, Floats (&sums)[kTokens]) {
  constexpr int kFours = kSlice / 4;
  if constexpr (kHalves) {
    add_values<kTokens, 0, kFours / 2>(slices, x, x_stride, slices.scales(), sums);
    add_values<kTokens, kFours / 2, kFours / 2>(slices, x, x_stride, slices.upper_scales(), sums);
  } else {
    add_values<kTokens, 0, kFours>(slices, x, x_stride, slices.scales(), sums);
  }
}

// Adds `count` slices to the results of kTokens tokens.
template <int kTokens, bool kHalves, class Slices>
void add_tile(Slices slices, int64_t count, const FloatTile& tile) {
  Floats sums[kTokens];
  EDGEC_UNROLL
  for (int t = 0; t < kTokens; t++) sums[t] = load_floats(tile.out + t * tile.out_stride);
  const float* x = tile.x;
  for (; count != 0; count--, slices.next(), x += kSlice) add_slice<kTokens, kHalves>(slices, x, tile.x_stride, sums);
  EDGEC_UNROLL
  for (int t = 0; t < kTokens; t++) store_floats(tile.out + t * tile.out_stride, sums[t]);
}

template <bool kHalves, int kTokens = kFloatTokens>
void add_panel(const float* panel, int64_t count, const FloatTile& tile) {
  if (tile.tokens >= kTokens) return add_tile<kTokens, kHalves>(PanelSlices(panel), count, tile);
  if constexpr (kTokens > 1) add_panel<kHalves, kTokens - 1>(panel, count, tile);
}

// One token reads codes as they lie; more share values that were unpacked once.
template <bool kHalves, class Slices>
void add_slices(Slices slices, int64_t slice_count, const FloatTile& tile) {
  if (tile.tokens == 1) return add_tile<1, kHalves>(slices, slice_count, tile);
  alignas(64) float panel[kPanelSlices * kPanelFloats];
  FloatTile window = tile;
  for (int64_t left = slice_count; left > 0; left -= kPanelSlices, window.x += kPanelSlices * kSlice) {
    const int64_t count = left < kPanelSlices ? left : kPanelSlices;
    fill_panel<kHalves>(slices, count, panel);
    for (int64_t done = 0; done < window.tokens; done += kFloatTokens) {
      add_panel<kHalves>(panel, count, window.after(done));
    }
  }
}

template <int kBits, int kPart>
void multiply_vector(const Matrix& matrix, const uint8_t* block, const float* decoded, const FloatTile& tile) {
  for (int64_t t = 0; t < tile.tokens; t++) store_floats(tile.out + t * tile.out_stride, no_floats());
  const StoredSlices<kBits, kPart> slices(matrix, block, decoded);
  if constexpr (kBits == 6) {
    if (matrix.has_halves()) return add_slices<true>(slices, matrix.slices(), tile);
  }
  add_slices<false>(slices, matrix.slices(), tile);
}

template <int kBits, int kPart = 0>
void multiply_rows(const Matrix& matrix, const uint8_t* block, const float* decoded, FloatTile tile) {
  multiply_vector<kBits, kPart>(matrix, block, decoded, tile);
  tile.out += kVectorRows;
  if constexpr ((kPart + 1) * kVectorRows < kBlockRows) multiply_rows<kBits, kPart + 1>(matrix, block, decoded, tile);
}

void multiply_rows(const Matrix& matrix, const uint8_t* block, const float* decoded, const FloatTile& tile) {
  switch (matrix.bits) {
    case 2: return multiply_rows<2>(matrix, block, decoded, tile);
    case 3: return multiply_rows<3>(matrix, block, decoded, tile);
    case 4: return multiply_rows<4>(matrix, block, decoded, tile);
    case 5: return multiply_rows<5>(matrix, block, decoded, tile);
    case 6: return multiply_rows<6>(matrix, block, decoded, tile);
    default: return multiply_rows<8>(matrix, block, decoded, tile);
  }
}

void multiply_floats(const Matrix& matrix, int64_t first_block, int64_t blocks, const Tokens& tokens,
                     int64_t first_token, int64_t token_count, float* out, int64_t stride) {
  const int64_t x_stride = tokens.slices * kSlice;
  FloatTile tile{tokens.floats + first_token * x_stride, x_stride, out, stride, token_count};
  for (int64_t i = first_block; i < first_block + blocks; i++, tile.out += kBlockRows) {
    const uint8_t* block = matrix.block(i);
    if (!matrix.decoded()) {
      multiply_rows(matrix, block, nullptr, tile);
      continue;
    }
    const Decoded decoded(matrix, block, 1);
    multiply_rows(matrix, block, decoded.scales(), tile);
    if (decoded.minimums() == nullptr) continue;
    add_minimums(decoded.minimums(), tokens.totals + first_token * tokens.slices, tokens.slices, token_count, tile.out, stride);
  }
}

}  // namespace
}  // namespace edgec::linear
