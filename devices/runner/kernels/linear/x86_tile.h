// Tokens x rows, the same for all instruction sets of x86. Include after EDGEC_BEGIN_ISA, a header of vectors and
// `Products<bits>`, which says how an instruction set multiplies codes by tokens:
//
//     kPlanes                 vectors of codes that stand for one: 2 where a code is cut in halves
//     kMostTokens             tokens in a tile
//     kChunk                  slices whose products a running sum holds
//     kWide                   whether a running sum is its own total where the step is 1
//     is_simple(matrix)       whether a group is one chunk; where sums are wide, whether the step is 1
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

constexpr int kTileRows = kVectors * kVectorRows;
constexpr int64_t kAhead = 4096;  // bytes: how far ahead of reading memory is asked for codes

// Some groups of a tile's rows, and some tokens.
struct Window {
  const uint8_t* codes;
  int64_t code_bytes;  // from a group's codes to the next one's
  int64_t next_codes;  // from a block's codes to the next one's
  const uint8_t* scales;
  int64_t scale_bytes;
  int64_t next_scales;
  int64_t groups;
  int64_t slices;  // of a group
  int step;
  const int8_t* values;
  int64_t token_bytes;
  const int32_t* starts;  // of totals, [token][group]: -offset * sum(value)
  int64_t token_starts;
  float* results;  // [token][kTileRows]
};

inline void ask_for(const uint8_t* codes, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kLine) _mm_prefetch(reinterpret_cast<const char*>(codes + i), _MM_HINT_T0);
}

// kParts vectors of rows by kTokens tokens. Unpacked codes lie in bytes.
template <int kBits, bool kUnpacked, int kTokens, int kParts>
struct Tiles {
  using Way = Products<kBits>;
  static constexpr int kPlanes = Way::kPlanes, kTotals = kTokens * kParts, kSums = kTotals * kPlanes;
  static constexpr int64_t kSliceBytes = (kUnpacked ? 8 : kBits) * kLine;
  static_assert(!kUnpacked || kPlanes == 1);

  static EDGEC_INLINE void read(const uint8_t* slice, int n, int64_t next_codes, Ints (&codes)[kParts * kPlanes]) {
    EDGEC_UNROLL
    for (int part = 0; part < kParts; part++) {
      const uint8_t* from = slice + beside(part, kLine / 2, next_codes);
      if constexpr (kUnpacked) {
        codes[part] = codes_at<8>(from, n);
      } else {
        Way::read(from, n, codes + part * kPlanes);
      }
    }
  }

  static EDGEC_INLINE void add_slice(const uint8_t* slice, const Window& window, const int8_t* values,
                                     Ints (&sums)[kSums]) {
    const int8_t* from[kTokens];
    EDGEC_UNROLL
    for (int token = 0; token < kTokens; token++) {
      from[token] = values + token * window.token_bytes;
      // One register a token: gcc would keep pointers to each of its vectors, in memory.
      asm("" : "+r"(from[token]));
    }
    EDGEC_UNROLL
    for (int n = 0; n < kSliceVectors; n++) {
      Ints codes[kParts * kPlanes];
      read(slice, n, window.next_codes, codes);
      EDGEC_UNROLL
      for (int token = 0; token < kTokens; token++) {
        const Ints four = four_values(from[token] + n * 4);
        EDGEC_UNROLL
        for (int i = 0; i < kParts * kPlanes; i++) {
          Ints& sum = sums[token * kParts * kPlanes + i];
          sum = Way::add(sum, codes[i], four);
        }
      }
    }
  }

  static EDGEC_INLINE void add_slices(const uint8_t* codes, int64_t slices, const Window& window, const int8_t* values,
                                      Ints (&sums)[kSums]) {
    for (int64_t i = 0; i < slices; i++) {
      if constexpr (!kUnpacked && kTokens == 1) ask_for(codes + i * kSliceBytes + kAhead, kSliceBytes);
      add_slice(codes + i * kSliceBytes, window, values + i * kSlice, sums);
    }
  }

  // Adds step * sum(code * value) of some slices.
  static EDGEC_INLINE void add_chunk(const uint8_t* codes, int64_t slices, const Window& window, const int8_t* values,
                                     Ints steps, Ints (&totals)[kTotals]) {
    Ints sums[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) sums[i] = no_ints();
    add_slices(codes, slices, window, values, sums);
    EDGEC_UNROLL
    for (int i = 0; i < kTotals; i++) totals[i] = plus(totals[i], Way::total(sums + i * kPlanes, steps));
  }

  // The totals of a group.
  template <bool kSimple>
  static EDGEC_INLINE void add_group(const uint8_t* codes, const Window& window, const int8_t* values,
                                     const int32_t* starts, Ints steps, Ints (&totals)[kTotals]) {
    constexpr bool kInPlace = kSimple && Way::kWide;
    EDGEC_UNROLL
    for (int i = 0; i < kTotals; i++) totals[i] = kInPlace ? same_ints(starts[i / kParts * window.token_starts]) : no_ints();
    if constexpr (kInPlace) {
      add_slices(codes, window.slices, window, values, totals);
    } else if constexpr (kSimple || Way::kWide) {
      add_chunk(codes, Way::kChunk == 1 ? 1 : window.slices, window, values, steps, totals);
    } else {
      for (int64_t i = 0; i < window.slices; i += Way::kChunk) {
        const int64_t slices = window.slices - i < Way::kChunk ? window.slices - i : Way::kChunk;
        add_chunk(codes + i * kSliceBytes, slices, window, values + i * kSlice, steps, totals);
      }
    }
    EDGEC_UNROLL
    for (int i = 0; i < kTotals && !kInPlace; i++) {
      totals[i] = plus(totals[i], same_ints(starts[i / kParts * window.token_starts]));
    }
  }

  template <bool kSimple>
  static void multiply_groups(const Window& window) {
    const Ints steps = Way::steps(window.step);
    Floats results[kTotals];
    EDGEC_UNROLL
    for (int i = 0; i < kTotals; i++) {
      results[i] = load_floats(window.results + i / kParts * kTileRows + i % kParts * kVectorRows);
    }
    for (int64_t group = 0; group < window.groups; group++) {
      Ints totals[kTotals];
      add_group<kSimple>(window.codes + group * window.code_bytes, window,
                         window.values + group * window.slices * kSlice, window.starts + group, steps, totals);
      const uint8_t* scales = window.scales + group * window.scale_bytes;
      EDGEC_UNROLL
      for (int i = 0; i < kTotals; i++) {
        const Floats scale = load_bfloat16(scales + beside(i % kParts, kVectorRows * 2, window.next_scales));
        results[i] = fused(as_floats(totals[i]), scale, results[i]);
      }
    }
    EDGEC_UNROLL
    for (int i = 0; i < kTotals; i++) {
      store_floats(window.results + i / kParts * kTileRows + i % kParts * kVectorRows, results[i]);
    }
  }

  // The window is the whole row, with one float32 scale.
  static void multiply_row(const Window& window) {
    Ints totals[kTotals];
    add_group<false>(window.codes, window, window.values, window.starts, Way::steps(window.step), totals);
    EDGEC_UNROLL
    for (int i = 0; i < kTotals; i++) {
      const uint8_t* scales = window.scales + beside(i % kParts, kVectorRows * 4, window.next_scales);
      const Floats scale = load_floats(reinterpret_cast<const float*>(scales));
      store_floats(window.results + i / kParts * kTileRows + i % kParts * kVectorRows,
                   times(as_floats(totals[i]), scale));
    }
  }
};

}  // namespace
}  // namespace edgec::linear
