#include "tiled_attention.h"

#include <algorithm>

#include "gemm.h"
#include "scratch.h"
#include "transpose.h"

namespace edgec {
namespace {

// Keys of one tile: unpacked keys and values (D = 128: 128 KB) stay in the second-level cache.
constexpr int kKeys = 128;
static_assert(kKeys % kColumns == 0);

constexpr int64_t up_to(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// One tile of tiled prefill and its memory.
struct Tile {
  const Attention& call;
  const Queries& queries;
  int64_t head;
  int64_t rows;
  float* q;         // panels [kRows columns of row_count][keys.width][kRows]
  float* keys;      // panels [kKeys / kColumns][keys.width][kColumns]
  float* values;    // panels [into.stride / kColumns][kKeys][kColumns]
  float* scores;    // [kRows, kKeys]
  float* line;      // kWidth unpacked rows
  Partial into;

  int64_t query(int64_t row) const { return queries.first + row / call.group(); }
  int64_t q_head(int64_t row) const { return head * call.group() + row % call.group(); }
};

// Consecutive rows whose products are computed in registers, and the keys that any of them sees.
struct Block {
  int64_t first;
  int count;
  Seen seen;
};

struct TiledScratch {};

Tile prepare(const Attention& call, const Queries& queries, int64_t head, Partial into) {
  const int64_t rows = queries.count * call.group(), width = call.keys.width;
  const int64_t widest = up_to(std::max<int64_t>(width, into.stride), kPair);
  const auto [q, keys, values, scores, line] = scratch<TiledScratch>(
      {up_to(rows, kRows) * width + kWidth, kKeys * width, kKeys * into.stride, kRows * kKeys, kWidth * widest});
  return {call, queries, head, rows, q, keys, values, scores, line, into};
}

// Writes rows as columns of their panel. The last store of a line spills into what is written after it: the next line,
// the columns of an earlier round, the next panel, or kWidth floats of room after the last one.
void load_panel(const Tile& tile, int64_t first) {
  const int width = tile.call.keys.width;
  const int64_t stride = up_to(width, kPair);
  const float factor = tile.call.q_factor();
  for (int64_t column = (kRows - 1) / kWidth * kWidth; column >= 0; column -= kWidth) {
    for (int64_t i = 0; i < kWidth; i++) {
      const int64_t row = std::min(first + column + i, tile.rows - 1);
      const float* from = tile.call.q + (tile.query(row) * tile.call.heads + tile.q_head(row)) * width;
      for (int64_t d = 0; d < width; d++) tile.line[i * stride + d] = from[d] * factor;
    }
    for (int d = 0; d < width; d += kWidth) {
      float* to = tile.q + first * width + d * kRows + column;
      transpose(tile.line + d, stride, to, kRows, std::min(kWidth, width - d));
    }
  }
}

void load_queries(const Tile& tile) {
  for (int64_t row = 0; row < tile.rows; row += kRows) load_panel(tile, row);
}

// Writes keys as columns: panel j holds keys j * kColumns.., one row per dimension.
void load_keys(const Tile& tile, const Span& span) {
  const Stored& keys = tile.call.keys;
  const int64_t stride = up_to(keys.width, kPair);
  for (int64_t key = 0; key < up_to(span.count, kColumns); key += kWidth) {
    prefetch_rows(keys, span.slot + key + kWidth, kWidth, tile.head);
    prefetch_rows(tile.call.values, span.slot + key, kWidth, tile.head);
    for (int64_t i = 0; i < kWidth; i++) {
      const int64_t slot = span.slot + std::min(key + i, span.count - 1);
      read_row(keys, keys.row(slot, tile.head), tile.line + i * stride);
    }
    float* panel = tile.keys + key / kColumns * kColumns * keys.width + key % kColumns;
    for (int d = 0; d < keys.width; d += kWidth) {
      transpose(tile.line + d, stride, panel + d * kColumns, kColumns, std::min(kWidth, keys.width - d));
    }
  }
}

void load_values(const Tile& tile, const Span& span) {
  const Stored& values = tile.call.values;
  for (int64_t key = 0; key < span.count; key++) {
    prefetch_rows(tile.call.keys, span.slot + kKeys + key, 1, tile.head);
    read_row(values, values.row(span.slot + key, tile.head), tile.line);
    for (int64_t d = 0; d < values.width; d += kWidth) {
      store(tile.values + d / kColumns * kColumns * kKeys + key * kColumns + d % kColumns, load(tile.line + d));
    }
  }
}

Block block_at(const Tile& tile, int64_t first, const Span& span) {
  Block block{first, static_cast<int>(std::min<int64_t>(kRows, tile.rows - first)), {kKeys, 0}};
  for (int64_t row = first; row < first + block.count; row++) {
    const Seen seen = tile.call.geometry.seen(tile.call.positions[tile.query(row)], span.position, span.count);
    block.seen.first = std::min(block.seen.first, seen.first);
    block.seen.end = std::max(block.seen.end, seen.end);
  }
  block.seen.first = block.seen.first / kWidth * kWidth;
  return block;
}

void score(const Tile& tile, const Block& block) {
  const int64_t width = tile.call.keys.width;
  const float* q = tile.q + block.first * width;
  for (int key = block.seen.first / kColumns * kColumns; key < block.seen.end; key += kColumns) {
    const float* keys = tile.keys + key * width;
    // One vector of keys where the causal edge leaves no more.
    if (block.seen.end - key <= kWidth) {
      Multiply<1, 1, kRows, false>::run(block.count, q, keys, width, tile.scores + key, kKeys);
    } else {
      Multiply<kVectors, 1, kRows, false>::run(block.count, q, keys, width, tile.scores + key, kKeys);
    }
  }
}

// Turns scores into weights, and rescales the sums so far to the new maximum.
void weigh(const Tile& tile, const Block& block, const Span& span) {
  const int first = block.seen.first, end = static_cast<int>(up_to(block.seen.end, kWidth));
  for (int64_t row = block.first; row < block.first + block.count; row++) {
    float* scores = tile.scores + (row - block.first) * kKeys;
    shape_scores(tile.call, tile.query(row), tile.q_head(row), span, scores, first, end);
    const float factor = absorb(scores + first, end - first, tile.into.rows[row]);
    float* out = tile.into.out + row * tile.into.stride;
    if (factor == 1.0f) continue;
    for (int64_t d = 0; d < tile.into.stride; d += kWidth) store(out + d, load(out + d) * factor);
  }
}

void add_values(const Tile& tile, const Block& block) {
  const int first = block.seen.first;
  for (int64_t d = 0; d < tile.into.stride; d += kColumns) {
    Multiply<kVectors, kKeys, 1, true>::run(block.count, tile.scores + first,
                                  tile.values + d * kKeys + first * kColumns, block.seen.end - first,
                                  tile.into.out + block.first * tile.into.stride + d, tile.into.stride);
  }
}

void add_span(const Tile& tile, const Span& span) {
  load_keys(tile, span);
  load_values(tile, span);
  for (int64_t row = 0; row < tile.rows; row += kRows) {
    const Block block = block_at(tile, row, span);
    if (block.seen.first >= block.seen.end) continue;
    score(tile, block);
    weigh(tile, block, span);
    add_values(tile, block);
  }
}

}  // namespace

int64_t tiled_stride(const Attention& call) {
  return up_to(call.values.width, kColumns);
}

void prefill_tile(const Attention& call, const Queries& queries, int64_t head, int64_t begin, int64_t end,
                  Partial into) {
  const Tile tile = prepare(call, queries, head, into);
  load_queries(tile);
  std::fill_n(into.out, tile.rows * into.stride, 0.0f);
  std::fill_n(into.rows, tile.rows, Running{});
  const Spans spans(call.geometry, queries.lowest, queries.highest, call.alignment());
  spans.pieces(begin, end, kKeys, [&](const Span& span) { add_span(tile, span); });
}

}  // namespace edgec
