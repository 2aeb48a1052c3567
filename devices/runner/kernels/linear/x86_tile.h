// Tokens x rows, the same for all instruction sets of x86. Include after EDGEC_BEGIN_ISA, a header of vectors and
// `Products<bits>`, which says how an instruction set multiplies codes by tokens:
//
//     kPlanes                 vectors of codes that stand for one: 2 where its codes are multiplied apart
//     kMostTokens             tokens in a tile
//     kWide                   whether a running sum of a slice is its own total where the step is 1
//     Slice, read_slice       a slice of a token's values, as they are multiplied
//     four(slice, n, plane)   values 4n .. 4n + 3 of it
//     read(slice, n, planes)  the codes of vector n of a slice
//     add(sum, codes, four)   sum + codes * values, in whatever form
//     steps(step)             the step, in whatever form
//     total(sum, steps)       step * what a running sum stands for, int32
#pragma once

#include "kernel.h"

namespace edgec::linear {
namespace {

constexpr int kTileRows = kVectors * kVectorRows;

// Some groups of a tile's rows, and some tokens. Where a row has one scale, a slice stands for a group.
struct Window {
  const uint8_t* codes;
  int64_t code_bytes;  // from a group's codes to the next one's
  int64_t next_codes;  // from a block's codes to the next one's
  const uint8_t* scales;
  const uint8_t* ahead;  // codes to ask memory for, as many as this window has; or null
  int64_t group_bytes;   // of scales and of codes ahead
  int64_t block_bytes;
  int64_t groups;
  int64_t slices;  // of a group
  int step;
  const int8_t* values;
  int64_t token_bytes;
  const int32_t* starts;  // of totals, [token][slice]: -offset * sum(value)
  const float* token_scales;  // [token][slice]
  int64_t token_slices;
  float* out;  // [token][stride]
  int64_t stride;
};

// A slice of a window: its codes and the codes to ask memory for, and its number.
struct Place {
  const uint8_t* codes;
  const uint8_t* ahead;
  int64_t slice;
};

// Inlined by force: GCC removes calls of a function that only prefetches as useless.
EDGEC_INLINE void prefetch(const uint8_t* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

// kParts vectors of rows by kTokens tokens. Unpacked codes lie in bytes.
template <int kBits, bool kUnpacked, int kTokens, int kParts>
struct Tiles {
  using Way = Products<kBits>;
  static constexpr int kPlanes = Way::kPlanes, kSums = kTokens * kParts;
  // A wide sum takes some cycles: where there are few of them, each is split, so that they overlap.
  static constexpr int kSplit = !Way::kWide || kSums > 4 ? 1 : kSums > 2 ? 2 : 4;
  // Codes of 2 bits at the same place in their bytes then share a sum, which is shifted once instead of every vector of codes.
  static constexpr int kInLine = kBits == 2 && kSplit == 4 && !kUnpacked ? kSplit : 1;
  static constexpr int64_t kSliceBytes = (kUnpacked ? 8 : kBits) * kLine;
  static_assert(!kUnpacked || kPlanes == 1);

  static EDGEC_INLINE void read(const uint8_t* slice, int n, int64_t next_codes, Ints (&codes)[kParts * kPlanes]) {
    EDGEC_UNROLL
    for (int part = 0; part < kParts; part++) {
      const uint8_t* from = slice + beside(part, kLine / 2, next_codes);
      if constexpr (kUnpacked) {
        codes[part] = codes_at<8>(from, n);
      } else if constexpr (kInLine > 1) {
        codes[part] = codes_in_place<kBits>(from, n);
      } else {
        Way::read(from, n, codes + part * kPlanes);
      }
    }
  }

  static EDGEC_INLINE void add_slice(const uint8_t* slice, const Window& window, const int8_t* values,
                                     Ints (&sums)[kSplit * kSums]) {
    typename Way::Slice tokens[kTokens];
    EDGEC_UNROLL
    for (int token = 0; token < kTokens; token++) Way::read_slice(values + token * window.token_bytes, tokens[token]);
    EDGEC_UNROLL
    for (int n = 0; n < kSliceVectors; n++) {
      Ints codes[kParts * kPlanes];
      read(slice, n, window.next_codes, codes);
      EDGEC_UNROLL
      for (int token = 0; token < kTokens; token++) {
        EDGEC_UNROLL
        for (int plane = 0; plane < kPlanes; plane++) {
          const Ints four = Way::four(tokens[token], n, plane);
          EDGEC_UNROLL
          for (int part = 0; part < kParts; part++) {
            Ints& sum = sums[n % kSplit * kSums + token * kParts + part];
            sum = Way::add(sum, codes[part * kPlanes + plane], four);
          }
        }
      }
    }
  }

  static EDGEC_INLINE void ask_for(const uint8_t* slice, int64_t block_bytes) {
    EDGEC_UNROLL
    for (int i = 0; i < kParts / kBlockVectors * kBits; i++) {
      prefetch(slice + i / kBits * block_bytes + i % kBits * kLine);
    }
  }

  // A group's scales, after its codes.
  static EDGEC_INLINE void ask_for_end(const uint8_t* group, const Window& window) {
    EDGEC_UNROLL
    for (int block = 0; block < kParts / kBlockVectors; block++) {
      prefetch(group + block * window.block_bytes + window.group_bytes - 1);
    }
  }

  // The running sums of a slice. Sums that are split are joined.
  static EDGEC_INLINE void add_split(const Place& place, const Window& window, Ints (&sums)[kSums]) {
    Ints split[kSplit * kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSplit * kSums; i++) split[i] = i < kSums ? sums[i] : no_ints();
    if (place.ahead != nullptr) ask_for(place.ahead, window.block_bytes);
    add_slice(place.codes, window, window.values + place.slice * kSlice, split);
    EDGEC_UNROLL
    for (int i = 0; i < kSplit * kSums; i++) {
      const Ints sum = i / kSums % kInLine == 0 ? split[i] : shifted_down(split[i], i / kSums % kInLine * kBits);
      sums[i % kSums] = i < kSums ? sum : plus(sums[i % kSums], sum);
    }
  }

  // The totals of a slice. kUnit: the step is 1.
  template <bool kUnit>
  static EDGEC_INLINE void total_slice(const Place& place, const Window& window, Ints steps, Ints (&totals)[kSums]) {
    constexpr bool kInPlace = kUnit && Way::kWide;
    const int32_t* starts = window.starts + place.slice;
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      totals[i] = kInPlace ? same_ints(starts[i / kParts * window.token_slices]) : no_ints();
    }
    add_split(place, window, totals);
    EDGEC_UNROLL
    for (int i = 0; i < kSums && !kInPlace; i++) {
      totals[i] = plus(Way::total(totals[i], steps), same_ints(starts[i / kParts * window.token_slices]));
    }
  }

  // kByRow: the scales of rows come later.
  template <bool kUnit, bool kByRow>
  static void multiply_groups(const Window& window) {
    const Ints steps = Way::steps(window.step);
    Floats results[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) results[i] = load_floats(result_at(window, i));
    Place place{window.codes, window.ahead, 0};
    for (int64_t group = 0; group < window.groups; group++) {
      place.codes = window.codes + group * window.code_bytes;
      if (window.ahead != nullptr) place.ahead = window.ahead + group * window.group_bytes;
      for (int64_t left = window.slices; left != 0; left--) {
        Ints totals[kSums];
        total_slice<kUnit>(place, window, steps, totals);
        add_totals<kByRow>(window, group, place.slice, totals, results);
        place.codes += kSliceBytes;
        if (place.ahead != nullptr) place.ahead += kBits * kLine;
        place.slice++;
      }
      if (place.ahead != nullptr && !kByRow) ask_for_end(place.ahead - window.slices * kBits * kLine, window);
    }
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) store_floats(result_at(window, i), results[i]);
  }

  static EDGEC_INLINE float* result_at(const Window& window, int i) {
    return window.out + i / kParts * window.stride + i % kParts * kVectorRows;
  }

  template <bool kByRow>
  static EDGEC_INLINE void add_totals(const Window& window, int64_t group, int64_t slice, const Ints (&totals)[kSums],
                                      Floats (&results)[kSums]) {
    const uint8_t* scales = window.scales + group * window.group_bytes;
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      const Floats token = same_floats(window.token_scales[i / kParts * window.token_slices + slice]);
      if constexpr (kByRow) {
        results[i] = fused(as_floats(totals[i]), token, results[i]);
      } else {
        const Floats scale = load_bfloat16(scales + beside(i % kParts, kVectorRows * 2, window.block_bytes));
        results[i] = fused(times(as_floats(totals[i]), token), scale, results[i]);
      }
    }
  }
};

}  // namespace
}  // namespace edgec::linear
