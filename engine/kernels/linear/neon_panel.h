// A panel: the codes of a block unpacked once for many tokens; part of the source file of an instruction set, after
// EDGEC_BEGIN_ISA.
#pragma once

#include "neon_codes.h"
#include "neon_ends.h"

namespace edgec::linear {
namespace {

// What fill_panel() wrote, in place of the codes it was written from.
template <class Codes>
struct Panel {
  static constexpr int kBelow = Codes::kBelow, kSliceBytes = kPanelSliceBytes;

  static EDGEC_PART void unpack(const uint8_t* slice, int part, int8x16_t (&v)[4]) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v[i] = load_bytes(slice + part * 64 + i * 16);
  }
};

// A run of a panel ends with its scales, as in the block.
template <class Source, Shares kShares>
EDGEC_TILE void fill_panel(const Rows& rows, uint8_t* panel) {
  const uint8_t* codes = rows.codes;
  for (int64_t run = 0; run < rows.runs; run++) {
    for (int64_t slice = 0; slice < rows.slices; slice++) {
#pragma GCC unroll 4
      for (int part = 0; part < 4; part++) {
        int8x16_t v[4];
        Source::unpack(codes, part, v);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) vst1q_u8(panel + part * 64 + i * 16, vreinterpretq_u8_s8(v[i]));
      }
      codes += Source::kSliceBytes;
      panel += kPanelSliceBytes;
    }
    if constexpr (!stand_in_runs(kShares)) continue;
    vst1q_u8(panel, vld1q_u8(codes));
    codes += kScaleBytes;
    panel += kScaleBytes;
  }
}

// The same rows, their codes in a panel.
template <Shares kShares>
Rows rows_of_panel(const Rows& rows, const uint8_t* panel) {
  Rows result = rows;
  result.codes = panel;
  if constexpr (stand_in_runs(kShares)) result.scales = panel + rows.slices * kPanelSliceBytes;
  result.run_bytes = rows.slices * kPanelSliceBytes + kScaleBytes;
  return result;
}

}  // namespace
}  // namespace edgec::linear
