// Tokens x rows, the same for all instruction sets of x86. Include after EDGEC_BEGIN_ISA, a header of vectors and
// `Products<bits>`, which says how an instruction set multiplies codes by tokens:
//
//     kPlanes                 vectors of codes that stand for one: 2 where its codes are multiplied apart
//     kMostTokens             tokens in a tile
//     kChunk                  slices whose products a running sum holds
//     kWide                   whether a running sum is its own total where the step is 1
//     is_simple(matrix)       whether a group is one chunk; where sums are wide, whether the step is 1
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

// Some groups of a tile's rows, and some tokens.
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
  const int32_t* starts;  // of totals, [token][group]: -offset * sum(value)
  int64_t token_starts;
  float* results;  // [token][kTileRows]
};

// Where some slices begin.
struct Place {
  const uint8_t* codes;
  const uint8_t* ahead;
  const int8_t* values;
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

  static EDGEC_INLINE Place place_at(const Place& place, int64_t slice) {
    const uint8_t* ahead = place.ahead == nullptr ? nullptr : place.ahead + slice * kBits * kLine;
    return {place.codes + slice * kSliceBytes, ahead, place.values + slice * kSlice};
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

  static EDGEC_INLINE void add_slices(const Place& place, int64_t slices, const Window& window, Ints (&sums)[kSums]) {
    Ints split[kSplit * kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSplit * kSums; i++) split[i] = i < kSums ? sums[i] : no_ints();
    for (int64_t i = 0; i < slices; i++) {
      const Place slice = place_at(place, i);
      if (slice.ahead != nullptr) ask_for(slice.ahead, window.block_bytes);
      add_slice(slice.codes, window, slice.values, split);
    }
    EDGEC_UNROLL
    for (int i = 0; i < kSplit * kSums; i++) {
      const Ints sum = i / kSums % kInLine == 0 ? split[i] : shifted_down(split[i], i / kSums % kInLine * kBits);
      sums[i % kSums] = i < kSums ? sum : plus(sums[i % kSums], sum);
    }
  }

  // Adds step * sum(code * value) of some slices.
  static EDGEC_INLINE void add_chunk(const Place& place, int64_t slices, const Window& window, Ints steps,
                                     Ints (&totals)[kSums]) {
    Ints sums[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) sums[i] = no_ints();
    add_slices(place, slices, window, sums);
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) totals[i] = plus(totals[i], Way::total(sums[i], steps));
  }

  // The totals of a group.
  template <bool kSimple>
  static EDGEC_INLINE void add_group(const Place& place, const Window& window, const int32_t* starts, Ints steps,
                                     Ints (&totals)[kSums]) {
    constexpr bool kInPlace = kSimple && Way::kWide;
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      totals[i] = kInPlace ? same_ints(starts[i / kParts * window.token_starts]) : no_ints();
    }
    if constexpr (kInPlace) {
      add_slices(place, window.slices, window, totals);
    } else if constexpr (kSimple || Way::kWide) {
      add_chunk(place, Way::kChunk == 1 ? 1 : window.slices, window, steps, totals);
    } else {
      for (int64_t i = 0; i < window.slices; i += Way::kChunk) {
        const int64_t slices = window.slices - i < Way::kChunk ? window.slices - i : Way::kChunk;
        add_chunk(place_at(place, i), slices, window, steps, totals);
      }
    }
    EDGEC_UNROLL
    for (int i = 0; i < kSums && !kInPlace; i++) {
      totals[i] = plus(totals[i], same_ints(starts[i / kParts * window.token_starts]));
    }
  }

  template <bool kSimple>
  static void multiply_groups(const Window& window) {
    const Ints steps = Way::steps(window.step);
    Floats results[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      results[i] = load_floats(window.results + i / kParts * kTileRows + i % kParts * kVectorRows);
    }
    for (int64_t group = 0; group < window.groups; group++) {
      Ints totals[kSums];
      const Place place{window.codes + group * window.code_bytes,
                        window.ahead == nullptr ? nullptr : window.ahead + group * window.group_bytes,
                        window.values + group * window.slices * kSlice};
      add_group<kSimple>(place, window, window.starts + group, steps, totals);
      if (place.ahead != nullptr) ask_for_end(place.ahead, window);
      const uint8_t* scales = window.scales + group * window.group_bytes;
      EDGEC_UNROLL
      for (int i = 0; i < kSums; i++) {
        const Floats scale = load_bfloat16(scales + beside(i % kParts, kVectorRows * 2, window.block_bytes));
        results[i] = fused(as_floats(totals[i]), scale, results[i]);
      }
    }
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      store_floats(window.results + i / kParts * kTileRows + i % kParts * kVectorRows, results[i]);
    }
  }

  // The window is the whole row, with one float32 scale.
  static void multiply_row(const Window& window) {
    Ints totals[kSums];
    const Place place{window.codes, window.ahead, window.values};
    add_group<false>(place, window, window.starts, Way::steps(window.step), totals);
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      const uint8_t* scales = window.scales + beside(i % kParts, kVectorRows * 4, window.block_bytes);
      const Floats scale = load_floats(reinterpret_cast<const float*>(scales));
      store_floats(window.results + i / kParts * kTileRows + i % kParts * kVectorRows,
                   times(as_floats(totals[i]), scale));
    }
  }
};

}  // namespace
}  // namespace edgec::linear
