// Chooses between split-KV decode (Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html) and tiled
// prefill (FlashAttention, arXiv 2205.14135 and 2307.08691), shares the work among threads, and combines partial
// results.
#include "attention.h"

#include <algorithm>
#include <vector>

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

// Fewer parts than this for each thread share their KV heads among threads, too: measured on two threads, decoding
// Qwen3-0.6B at positions 140 and 300 takes 2 to 5 % less time, and as much at 800.
constexpr int64_t kPartsPerThread = 2;

struct PartScratch {};
struct HeadScratch {};

int64_t products(const Attention& call, int64_t keys) {
  return call.queries * call.heads * keys * (call.keys.width + call.values.width);
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

// One call of split-KV decode: its keys in parts, and where the results of each part lie.
struct Split {
  const Attention* call;
  Queries queries;
  Spans spans;
  int64_t parts;
  int64_t first_part;  // among the parts of all calls
  Running* running;    // [parts, rows]
  float* out;          // [parts, rows, values.width]

  int64_t rows() const { return call->queries * call->heads; }
  Partial part(int64_t i, int64_t row) const {
    const int64_t at = i * rows() + row, width = call->values.width;
    return {running + at, out + at * width, width};
  }
};

std::vector<Split>& splits_of(const std::vector<const Attention*>& calls) {
  static thread_local std::vector<Split> splits;
  splits.clear();
  int64_t before = 0;
  for (const Attention* call : calls) {
    const Queries queries = queries_of(*call, 0, call->queries);
    const Spans spans(call->geometry, queries.lowest, queries.highest, kKeysPerPart);
    splits.push_back({call, queries, spans, spans.parts(kKeysPerPart), before, nullptr, nullptr});
    before += splits.back().parts;
  }
  return splits;
}

// Gives each call memory for its parts, whole vectors of it.
void place(std::vector<Split>& splits) {
  int64_t floats = 0, rows = 0;
  for (const Split& split : splits) {
    rows += split.parts * split.rows();
    floats += split.parts * split.rows() * split.call->values.width;
  }
  const auto [out, running] = scratch<PartScratch>({floats, rows * 2});
  float* next = out;
  auto* next_row = reinterpret_cast<Running*>(running);
  for (Split& split : splits) {
    split.out = next;
    split.running = next_row;
    next += split.parts * split.rows() * split.call->values.width;
    next_row += split.parts * split.rows();
  }
}

// Into how many the KV heads of each part are cut, so that every thread has as much to do where parts are few.
int64_t cuts_of(int64_t parts, int64_t heads) {
  return parts < kPartsPerThread * threads() ? std::min(threads(), heads) : 1;
}

// Split-KV decode: the keys of all calls are split into parts that threads share, each for all heads at once, or for
// some of them where the parts are few; then the parts of each call are combined.
void split_kv_decode(const std::vector<const Attention*>& calls) {
  std::vector<Split>& splits = splits_of(calls);
  place(splits);
  int64_t work = 0, heads = splits.front().call->keys.heads;
  for (const Split& split : splits) {
    work += products(*split.call, split.spans.keys());
    heads = std::min<int64_t>(heads, split.call->keys.heads);
  }
  const int64_t parts = splits.back().first_part + splits.back().parts, cuts = cuts_of(parts, heads);
  for_units(parts * cuts, work >= kWorthWaking, [&](int64_t unit) {
    const int64_t at = unit % parts, cut = unit / parts;
    const auto after = [](int64_t at, const Split& split) { return at < split.first_part; };
    const Split& split = *(std::upper_bound(splits.begin(), splits.end(), at, after) - 1);
    const int64_t i = at - split.first_part, all = split.call->keys.heads;
    const KvHeads own{all * cut / cuts, all * (cut + 1) / cuts - all * cut / cuts};
    const int64_t first_row = own.first * split.call->queries * split.call->group();
    decode_part(*split.call, split.queries, own, split.spans.part(i, kKeysPerPart), split.part(i, first_row));
  });
  for (const Split& split : splits) {
    const int64_t head_rows = split.call->queries * split.call->group();
    for (int64_t head = 0; head < split.call->keys.heads; head++) {
      finish(*split.call, split.queries, head, split.parts, [&](int64_t i) { return split.part(i, head * head_rows); });
    }
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
  for_units(tiles * heads * parts, products(call, all_keys) >= kWorthWaking, [&](int64_t unit) {
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

void attend(const std::vector<Attention>& calls) {
  static thread_local std::vector<const Attention*> few;
  few.clear();
  for (const Attention& call : calls) {
    if (call.queries == 0) continue;
    const bool small = call.verified() || call.queries * call.group() < kRowsForTiles;
    if (small && heads_fit_vectors(call)) {
      few.push_back(&call);
    } else {
      tiled_prefill(call);
    }
  }
  if (!few.empty()) split_kv_decode(few);
}

void attend(const Attention& call) {
  static thread_local std::vector<Attention> one;
  one.assign(1, call);
  attend(one);
}

}  // namespace edgec
