// Tokens x rows, the same for all instruction sets of x86. Include after EDGEC_BEGIN_ISA, a header of vectors and
// `Products<bits>`, which says how an instruction set multiplies codes by tokens:
//
//     kPlanes                 vectors of codes that stand for one: 2 where a code is cut in halves
//     kMostTokens             tokens in a tile
//     kChunk                  slices whose products a running sum holds
//     read(slice, n, planes)  the codes of vector n of a slice
//     add(sum, codes, four)   sum + codes * values, in whatever form
//     steps(step)             the step, in whatever form
//     total(sums, steps)      step * what the sums of all planes stand for, int32
#pragma once

#include "kernel.h"

namespace edgec::linear {
namespace {

#define EDGEC_UNROLL _Pragma("GCC unroll 16")
#define EDGEC_INLINE inline __attribute__((always_inline))

constexpr int64_t kAhead = 4096;  // bytes: how far ahead of reading memory is asked for codes

// What a tile reads and writes: the rows of a block (or of it and the next), and some tokens.
struct Tile {
  const Matrix* matrix;
  const uint8_t* block;
  const int8_t* values;
  int64_t token_bytes;
  const int32_t* sums;  // [token][group]
  const float* scales;
  const float* zeros;
  float* out;
  int64_t stride;
};

inline void ask_for(const uint8_t* codes, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kLine) _mm_prefetch(reinterpret_cast<const char*>(codes + i), _MM_HINT_T0);
}

// kParts vectors of rows.
template <int kBits, int kTokens, int kParts>
struct Tiles {
  using Way = Products<kBits>;
  static constexpr int kPlanes = Way::kPlanes, kSums = kTokens * kParts * kPlanes;
  static constexpr int64_t kSliceBytes = kBits * kLine;

  static EDGEC_INLINE void add_slice(const uint8_t* slice, const Tile& tile, int64_t block_bytes, const int8_t* values,
                                     Ints (&sums)[kSums]) {
    EDGEC_UNROLL
    for (int n = 0; n < kSliceVectors; n++) {
      Ints codes[kParts * kPlanes];
      EDGEC_UNROLL
      for (int part = 0; part < kParts; part++) {
        Way::read(slice + beside(part, kLine / 2, block_bytes), n, codes + part * kPlanes);
      }
      EDGEC_UNROLL
      for (int token = 0; token < kTokens; token++) {
        const Ints four = four_values(values + token * tile.token_bytes + n * 4);
        EDGEC_UNROLL
        for (int i = 0; i < kParts * kPlanes; i++) {
          Ints& sum = sums[token * kParts * kPlanes + i];
          sum = Way::add(sum, codes[i], four);
        }
      }
    }
  }

  static EDGEC_INLINE void add_chunk(const uint8_t* codes, int64_t slices, const Tile& tile, int64_t block_bytes,
                                     const int8_t* values, Ints steps, Ints (&totals)[kTokens * kParts]) {
    Ints sums[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) sums[i] = no_ints();
    for (int64_t i = 0; i < slices; i++) {
      if (kTokens == 1) ask_for(codes + i * kSliceBytes + kAhead, kSliceBytes);
      add_slice(codes + i * kSliceBytes, tile, block_bytes, values + i * kSlice, sums);
    }
    EDGEC_UNROLL
    for (int i = 0; i < kTokens * kParts; i++) {
      totals[i] = plus(totals[i], Way::total(sums + i * kPlanes, steps));
    }
  }

  // step * sum(code * value) over a group.
  template <bool kOneChunk>
  static EDGEC_INLINE void add_group(const uint8_t* codes, int64_t slices, const Tile& tile, int64_t block_bytes,
                                     const int8_t* values, Ints steps, Ints (&totals)[kTokens * kParts]) {
    EDGEC_UNROLL
    for (int i = 0; i < kTokens * kParts; i++) totals[i] = no_ints();
    if constexpr (kOneChunk) {
      add_chunk(codes, Way::kChunk == 1 ? 1 : slices, tile, block_bytes, values, steps, totals);
    } else {
      for (int64_t i = 0; i < slices; i += Way::kChunk) {
        const int64_t chunk = slices - i < Way::kChunk ? slices - i : Way::kChunk;
        add_chunk(codes + i * kSliceBytes, chunk, tile, block_bytes, values + i * kSlice, steps, totals);
      }
    }
  }

  static EDGEC_INLINE void write(const Tile& tile, const uint8_t* row_sums, int64_t block_bytes,
                                 const Floats (&results)[kTokens * kParts]) {
    EDGEC_UNROLL
    for (int i = 0; i < kTokens * kParts; i++) {
      const int token = i / kParts, part = i % kParts;
      const Floats sums = load_floats(row_sums + beside(part, kVectorRows * 4, block_bytes));
      const Floats result = fused(same_floats(-tile.zeros[token]), sums, results[i]);
      store_floats(tile.out + token * tile.stride + part * kVectorRows, times(result, same_floats(tile.scales[token])));
    }
  }

  template <bool kOneChunk>
  static void multiply_groups(const Tile& tile) {
    const Matrix& matrix = *tile.matrix;
    const int64_t groups = matrix.groups(), slices = matrix.group_slices(), block_bytes = matrix.block_bytes();
    const int64_t group_bytes = matrix.group_bytes(), code_bytes = slices * kSliceBytes;
    const Ints steps = Way::steps(matrix.step), offset = same_ints(-matrix.offset);
    Floats results[kTokens * kParts];
    EDGEC_UNROLL
    for (int i = 0; i < kTokens * kParts; i++) results[i] = no_floats();
    const uint8_t* codes = tile.block;
    const int8_t* values = tile.values;
    for (int64_t group = 0; group < groups; group++, codes += group_bytes, values += slices * kSlice) {
      Ints totals[kTokens * kParts];
      add_group<kOneChunk>(codes, slices, tile, block_bytes, values, steps, totals);
      EDGEC_UNROLL
      for (int token = 0; token < kTokens; token++) {
        const Ints less = times(offset, same_ints(tile.sums[token * groups + group]));
        EDGEC_UNROLL
        for (int part = 0; part < kParts; part++) {
          const int i = token * kParts + part;
          const Floats scales = load_bfloat16(codes + code_bytes + beside(part, kVectorRows * 2, block_bytes));
          results[i] = fused(as_floats(plus(totals[i], less)), scales, results[i]);
        }
      }
    }
    write(tile, codes, block_bytes, results);
  }

  // The whole row is one group, with a float32 scale behind the row sums.
  static void multiply_rows(const Tile& tile) {
    const Matrix& matrix = *tile.matrix;
    const int64_t slices = matrix.group_slices(), block_bytes = matrix.block_bytes();
    const uint8_t* row_sums = tile.block + slices * kSliceBytes;
    const uint8_t* row_scales = row_sums + matrix.block_rows() * 4;
    Ints totals[kTokens * kParts];
    add_group<false>(tile.block, slices, tile, block_bytes, tile.values, Way::steps(matrix.step), totals);
    Floats results[kTokens * kParts];
    EDGEC_UNROLL
    for (int i = 0; i < kTokens * kParts; i++) {
      const Ints less = same_ints(-matrix.offset * tile.sums[i / kParts]);
      const Floats scales = load_floats(row_scales + beside(i % kParts, kVectorRows * 4, block_bytes));
      results[i] = times(as_floats(plus(totals[i], less)), scales);
    }
    write(tile, row_sums, block_bytes, results);
  }

  static void multiply(const Tile& tile) {
    if constexpr (kBits == 8) {
      multiply_rows(tile);
    } else if (tile.matrix->group == 0) {
      multiply_rows(tile);
    } else if (tile.matrix->group_slices() <= Way::kChunk) {
      multiply_groups<true>(tile);
    } else {
      multiply_groups<false>(tile);
    }
  }
};

}  // namespace
}  // namespace edgec::linear
