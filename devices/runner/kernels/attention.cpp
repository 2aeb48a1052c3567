// Chooses between split-KV decode (Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html) and tiled
// prefill (FlashAttention, arXiv 2205.14135 and 2307.08691), shares the work among threads, and combines partial
// results.
#include "attention.h"

#include <algorithm>

#include "parallel.h"
#include "row_attention.h"
#include "scratch.h"
#include "tiled_attention.h"

namespace edgec {
namespace {

// From this many rows per KV head on, unpacking keys for matrix products pays: measured over 960 keys in all four
// formats, both ways cost the same at 16 to 24 rows.
constexpr int64_t kRowsForTiles = 20;
// Multiply-adds that take about 10 us on one core. Measured with ExecuTorch's pool on 2 cores: a second thread costs 2
// us while it still spins after XNNPACK's last call, and 7 to 30 us once it sleeps (about 50 us later).
constexpr int64_t kWorthWaking = 1 << 18;
// Fewer keys than this are not shared among threads.
constexpr int64_t kKeysPerCut = 64;

struct PartScratch {};
struct HeadScratch {};

bool worth_waking(const Attention& call, int64_t keys) {
  return call.queries * call.heads * keys * (call.keys.width + call.values.width) >= kWorthWaking;
}

int64_t keys_seen(const Attention& call, const Queries& queries) {
  return Spans(call.geometry, queries.lowest, queries.highest, call.alignment()).keys();
}

// How many parts to cut the keys into so that every thread has work.
int64_t parts_of(int64_t keys, int64_t units) {
  const int64_t wanted = (threads() + units - 1) / units;
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, keys / kKeysPerCut));
}

// The factor that makes a part's weights relative to the greatest maximum.
inline float factor_of(const Running& row, float highest) {
  return exp2(broadcast(row.maximum - highest))[0];
}

// The learned sink of a query head: a key that every query sees and that has no value.
Running sink_of(const Attention& call, int64_t head) {
  if (call.sink_logits == nullptr) return {};
  return {call.sink_logits[head] * kLog2e, 1.0f};
}

// Combines the parts of one KV head's rows: their sums, rescaled to the greatest maximum, over the sum of all weights.
// part(i) is the i-th Partial.
template <typename Part>
void finish(const Attention& call, const Queries& queries, int64_t head, int64_t parts, const Part& part) {
  const int64_t width = call.values.width, group = call.group();
  for (int64_t row = 0; row < queries.count * group; row++) {
    float* out = call.out + ((queries.first + row / group) * call.heads + head * group + row % group) * width;
    const Running sink = sink_of(call, head * group + row % group);
    float highest = sink.maximum;
    for (int64_t i = 0; i < parts; i++) highest = std::max(highest, part(i).rows[row].maximum);
    float sum = sink.sum * factor_of(sink, highest);
    for (int64_t i = 0; i < parts; i++) sum += part(i).rows[row].sum * factor_of(part(i).rows[row], highest);
    const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
    if (parts == 0) std::fill_n(out, width, 0.0f);
    for (int64_t i = 0; i < parts; i++) {
      const Partial from = part(i);
      const float share = factor_of(from.rows[row], highest) * inverse;
      const float* values = from.out + row * from.stride;
      for (int64_t d = 0; d < width; d++) out[d] = i == 0 ? values[d] * share : out[d] + values[d] * share;
    }
  }
}

// Split-KV decode: the keys are split into parts that threads share, each for all heads at once; then the parts are
// combined.
void split_kv_decode(const Attention& call) {
  const Queries queries = queries_of(call, 0, call.queries);
  const Spans spans(call.geometry, queries.lowest, queries.highest, kKeysPerPart);
  const int64_t parts = spans.parts(kKeysPerPart);
  const int64_t rows = call.queries * call.heads, width = call.values.width;
  const auto memory = scratch<PartScratch>({parts * rows * width, parts * rows * 2});
  auto* running = reinterpret_cast<Running*>(memory[1]);
  for_units(parts, worth_waking(call, spans.keys()), [&](int64_t i) {
    const Partial into{running + i * rows, memory[0] + i * rows * width, width};
    decode_part(call, queries, spans.part(i, kKeysPerPart), into);
  });
  const int64_t head_rows = call.queries * call.group();
  for (int64_t head = 0; head < call.keys.heads; head++) {
    finish(call, queries, head, parts, [&](int64_t i) {
      const int64_t first = i * rows + head * head_rows;
      return Partial{running + first, memory[0] + first * width, width};
    });
  }
}

// How many tiles to cut the queries of a KV head into: as few as their size allows, but enough to keep all threads busy
// to the end, although later tiles see more keys.
int64_t tiles_of(const Attention& call) {
  const auto cut = [&](int64_t rows) { return (call.queries * call.group() + rows - 1) / rows; };
  const int64_t busy = threads() > 1 ? (4 * threads() + call.keys.heads - 1) / call.keys.heads : 1;
  return std::max(cut(kTiledRows), std::min(busy, cut(kTiledRows / 8)));
}

// Tiled prefill: each tile holds queries of one KV head, and threads share the tiles; where there are fewer tiles than
// threads, the keys of each tile are split as well.
void tiled_prefill(const Attention& call) {
  const int64_t heads = call.keys.heads, in_tile = (call.queries + tiles_of(call) - 1) / tiles_of(call);
  const int64_t tiles = (call.queries + in_tile - 1) / in_tile;
  const int64_t all_keys = keys_seen(call, queries_of(call, 0, call.queries));
  const int64_t parts = call.verified() ? 1 : parts_of(all_keys, tiles * heads);
  const int64_t rows = std::min(in_tile, call.queries) * call.group(), stride = tiled_stride(call);
  const int64_t shared = parts > 1 ? tiles * heads * parts : 0;
  const auto memory = scratch<PartScratch>({shared * rows * stride, shared * rows * 2});
  const auto part = [&](int64_t unit) {
    return Partial{reinterpret_cast<Running*>(memory[1]) + unit * rows, memory[0] + unit * rows * stride, stride};
  };
  const auto tile = [&](int64_t unit) {
    const int64_t first = unit / parts % tiles * in_tile;
    return queries_of(call, first, std::min(in_tile, call.queries - first));
  };
  for_units(tiles * heads * parts, worth_waking(call, all_keys), [&](int64_t unit) {
    const Queries queries = tile(unit);
    const int64_t keys = keys_seen(call, queries), head = unit / parts / tiles, i = unit % parts;
    const auto own = scratch<HeadScratch>({parts > 1 ? 0 : rows * stride, parts > 1 ? 0 : rows * 2});
    const Partial into = parts > 1 ? part(unit) : Partial{reinterpret_cast<Running*>(own[1]), own[0], stride};
    prefill_tile(call, queries, head, keys * i / parts, keys * (i + 1) / parts, into);
    if (parts == 1) finish(call, queries, head, 1, [&](int64_t) { return into; });
  });
  if (parts == 1) return;
  for (int64_t unit = 0; unit < tiles * heads * parts; unit += parts) {
    finish(call, tile(unit), unit / parts / tiles, parts, [&](int64_t i) { return part(unit + i); });
  }
}

}  // namespace

Queries queries_of(const Attention& call, int64_t first, int64_t count) {
  const auto [low, high] = std::minmax_element(call.positions + first, call.positions + first + count);
  return {first, count, *low, *high};
}

void shape_scores(const Attention& call, int64_t query, int64_t head, const Span& span, float* scores, int first,
                  int end) {
  if (call.softcap > 0) cap_scores(scores + first, end - first, call.softcap * kLog2e);
  if (call.mask != nullptr) {
    const float* mask = call.mask + head * call.mask_head_stride + query * call.mask_stride + span.slot;
    const int known = static_cast<int>(std::min<int64_t>(end, span.count));
    for (int i = first; i < known; i++) scores[i] += mask[i] * kLog2e;
  }
  hide(scores, first, end, call.geometry.seen(call.positions[query], span.position, span.count));
}

void attend(const Attention& call) {
  if (call.queries == 0) return;
  const bool small = call.verified() || call.queries * call.group() < kRowsForTiles;
  small && heads_fit_vectors(call) ? split_kv_decode(call) : tiled_prefill(call);
}

}  // namespace edgec
