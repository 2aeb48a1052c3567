// Tokens x rows, the same for all instruction sets of x86. Include after EDGEC_BEGIN_ISA.
#pragma once

#include "kernel.h"
#include "x86_codes.h"
#include "x86_products.h"

namespace edgec::linear {
namespace {

constexpr int kTileRows = kVectors * kVectorRows;

// Where a slice's scales lie: after its run of codes as bfloat16, or decoded: of slices, or of their halves. Those of
// rows come later.
enum class Shares { kRun, kRow, kSlice, kHalf };

// Some runs of a tile's rows, and some tokens. Where a row is one run, a slice stands for a run.
struct Window {
  const uint8_t* codes;
  int64_t code_bytes;  // from a run's codes to the next one's
  int64_t next_codes;  // from a block's codes to the next one's
  const uint8_t* scales;
  const float* decoded;  // [slice or half][kBlockRows]; null where scales are not decoded
  int64_t next_decoded;  // bytes from a block's decoded scales to the next one's
  const uint8_t* ahead;  // codes to ask memory for, as many as this window has; or null
  int64_t run_bytes;     // of scales and of codes ahead
  int64_t block_bytes;
  int64_t runs;
  int64_t slices;  // of a run
  int step;
  const int8_t* values;
  int64_t token_bytes;
  const int32_t* starts;  // of totals, [token][slice or half]: -offset * sum(value)
  int64_t token_starts;   // of a token
  const float* token_scales;  // [token][slice]
  int64_t token_slices;
  float* out;  // [token][stride]
  int64_t stride;
};

// A slice of a window: its codes, the codes to ask memory for, its run's scales and its number.
struct Place {
  const uint8_t* codes;
  const uint8_t* ahead;
  const uint8_t* scales;
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

  // kVectorCount of a slice's vectors, from kFirst on.
  template <int kFirst, int kVectorCount>
  static EDGEC_INLINE void add_slice(const uint8_t* slice, const Window& window, const int8_t* values,
                                     Ints (&sums)[kSplit * kSums]) {
    typename Way::Slice tokens[kTokens];
    EDGEC_UNROLL
    for (int token = 0; token < kTokens; token++) Way::read_slice(values + token * window.token_bytes, tokens[token]);
    EDGEC_UNROLL
    for (int n = kFirst; n < kFirst + kVectorCount; n++) {
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

  // A run's scales, after its codes.
  static EDGEC_INLINE void ask_for_end(const uint8_t* run, const Window& window) {
    EDGEC_UNROLL
    for (int block = 0; block < kParts / kBlockVectors; block++) {
      prefetch(run + block * window.block_bytes + window.run_bytes - 1);
    }
  }

  // The running sums of vectors of a slice. Sums that are split are joined.
  template <int kFirst, int kVectorCount>
  static EDGEC_INLINE void add_split(const Place& place, const Window& window, Ints (&sums)[kSums]) {
    Ints split[kSplit * kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSplit * kSums; i++) split[i] = i < kSums ? sums[i] : no_ints();
    if (kFirst == 0 && place.ahead != nullptr) ask_for(place.ahead, window.block_bytes);
    add_slice<kFirst, kVectorCount>(place.codes, window, window.values + place.slice * kSlice, split);
    EDGEC_UNROLL
    for (int i = 0; i < kSplit * kSums; i++) {
      const Ints sum = i / kSums % kInLine == 0 ? split[i] : shifted_down(split[i], i / kSums % kInLine * kBits);
      sums[i % kSums] = i < kSums ? sum : plus(sums[i % kSums], sum);
    }
  }

  // Adds part kPart of a slice, which has kOf parts. kUnit: the step is 1.
  template <bool kUnit, Shares kShares, int kPart, int kOf>
  static EDGEC_INLINE void add_part(const Place& place, const Window& window, Ints steps, Floats (&results)[kSums]) {
    constexpr bool kInPlace = kUnit && Way::kWide;
    const int32_t* starts = window.starts + place.slice * kOf + kPart;
    Ints totals[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      totals[i] = kInPlace ? same_ints(starts[i / kParts * window.token_starts]) : no_ints();
    }
    add_split<kPart * kSliceVectors / kOf, kSliceVectors / kOf>(place, window, totals);
    EDGEC_UNROLL
    for (int i = 0; i < kSums && !kInPlace; i++) {
      totals[i] = plus(Way::total(totals[i], steps), same_ints(starts[i / kParts * window.token_starts]));
    }
    add_totals<kShares>(window, place, place.slice * kOf + kPart, totals, results);
  }

  template <bool kUnit, Shares kShares>
  static void multiply_runs(const Window& window) {
    const Ints steps = Way::steps(window.step);
    Floats results[kSums];
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) results[i] = load_floats(result_at(window, i));
    Place place{window.codes, window.ahead, window.scales, 0};
    for (int64_t run = 0; run < window.runs; run++) {
      place.codes = window.codes + run * window.code_bytes;
      if (window.ahead != nullptr) place.ahead = window.ahead + run * window.run_bytes;
      for (int64_t left = window.slices; left != 0; left--) {
        if constexpr (kShares == Shares::kHalf) {
          add_part<kUnit, kShares, 0, 2>(place, window, steps, results);
          add_part<kUnit, kShares, 1, 2>(place, window, steps, results);
        } else {
          add_part<kUnit, kShares, 0, 1>(place, window, steps, results);
        }
        place.codes += kSliceBytes;
        if (place.ahead != nullptr) place.ahead += kBits * kLine;
        place.slice++;
      }
      if (place.ahead != nullptr && kShares == Shares::kRun) ask_for_end(place.ahead - window.slices * kBits * kLine, window);
      place.scales += window.run_bytes;
    }
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) store_floats(result_at(window, i), results[i]);
  }

  static EDGEC_INLINE float* result_at(const Window& window, int i) {
    return window.out + i / kParts * window.stride + i % kParts * kVectorRows;
  }

  // `part`: the number of the slice, or of its half.
  template <Shares kShares>
  static EDGEC_INLINE void add_totals(const Window& window, const Place& place, int64_t part, const Ints (&totals)[kSums],
                                      Floats (&results)[kSums]) {
    EDGEC_UNROLL
    for (int i = 0; i < kSums; i++) {
      const Floats token = same_floats(window.token_scales[i / kParts * window.token_slices + place.slice]);
      if constexpr (kShares == Shares::kRow) {
        results[i] = fused(as_floats(totals[i]), token, results[i]);
      } else {
        results[i] = fused(times(as_floats(totals[i]), token), scale_of<kShares>(window, place, part, i % kParts), results[i]);
      }
    }
  }

  template <Shares kShares>
  static EDGEC_INLINE Floats scale_of(const Window& window, const Place& place, int64_t part, int vector) {
    if constexpr (kShares == Shares::kRun) {
      return load_bfloat16(place.scales + beside(vector, kVectorRows * 2, window.block_bytes));
    } else {
      const auto* decoded = reinterpret_cast<const uint8_t*>(window.decoded + part * kBlockRows);
      return load_floats(reinterpret_cast<const float*>(decoded + beside(vector, kVectorRows * 4, window.next_decoded)));
    }
  }
};

}  // namespace
}  // namespace edgec::linear
