// The recurrences whose heads hold a matrix [keys, values]: the delta rule and Mamba 2. Chunks in parallel form would
// save little: with the matrix in the first-level cache, 128 x 128 take 1,000 loads and 2,000 products of vectors.
#include <cmath>
#include <cstring>

#include "parallel.h"
#include "partial_vector.h"
#include "scratch.h"
#include "states.h"

namespace edgec {
namespace {

// Columns of a matrix that one thread walks over all tokens: with 128 keys they fill half a first-level cache.
constexpr int kVectors = 2, kBlock = kVectors * kWidth;

// M = decay M; M += k (beta (v - k M)) or, without delta, k (beta v); y = scale q M + skip v.
struct Matrices {
  const float *q, *k;   // [tokens, groups, keys]
  const float* v;       // [tokens, heads, values]
  const float* decay;   // [tokens, heads, decays]
  const float* beta;    // [tokens, heads]
  const float* skip;    // [heads] or null
  int64_t tokens, groups, heads, keys, values, decays;
  bool delta;
  float scale;
  Held held;
  float* out;

  // A row of the log: the keys of all groups, the decays of all heads, and their writes.
  int64_t decays_at() const { return groups * keys; }
  int64_t writes_at() const { return decays_at() + heads * decays; }
  int64_t row_width() const { return writes_at() + heads * values; }
  int64_t group_of(int64_t head) const { return head / (heads / groups); }
};

// Some columns of one head's matrix; `rows` are `stride` apart.
struct Columns {
  const Matrices& call;
  int64_t head, first, count;
  float* rows;
  int64_t stride;
};

struct Block {
  Vec vectors[kVectors];
};

Block load_block(const Columns& at, const float* from) {
  Block block;
  for (int i = 0; i < kVectors; i++) {
    const int64_t left = at.count - i * kWidth;
    block.vectors[i] = left > 0 ? load_some(from + i * kWidth, left) : Vec{};
  }
  return block;
}

void store_block(const Columns& at, const Block& block, float* to) {
  for (int i = 0; i < kVectors && i * kWidth < at.count; i++) {
    store_some(to + i * kWidth, block.vectors[i], at.count - i * kWidth);
  }
}

// What the key retrieves from the matrix once it has decayed.
template <bool kEachKey>
Block retrieved(const Columns& at, const float* key, const float* decay) {
  Block even{}, odd{};
  const auto add = [&](int64_t n, Block& sums) {
    const Vec factor = broadcast(kEachKey ? key[n] * decay[n] : key[n]);
    for (int i = 0; i < kVectors; i++) {
      sums.vectors[i] = fma(factor, load(at.rows + n * at.stride + i * kWidth), sums.vectors[i]);
    }
  };
  for (int64_t n = 0; n + 1 < at.call.keys; n += 2) {
    add(n, even);
    add(n + 1, odd);
  }
  if (at.call.keys % 2) add(at.call.keys - 1, even);
  for (int i = 0; i < kVectors; i++) {
    even.vectors[i] += odd.vectors[i];
    if (!kEachKey) even.vectors[i] *= broadcast(decay[0]);
  }
  return even;
}

// Takes a row of the log into the matrix: the same as written(), bit for bit.
template <bool kEachKey>
void replay(const Columns& at, const float* row) {
  const Matrices& call = at.call;
  const float *key = row + call.group_of(at.head) * call.keys, *decay = row + call.decays_at() + at.head * call.decays;
  const Block value = load_block(at, row + call.writes_at() + at.head * call.values + at.first);
  for (int64_t n = 0; n < call.keys; n++) {
    const Vec kept = broadcast(kEachKey ? decay[n] : decay[0]), k = broadcast(key[n]);
    for (int i = 0; i < kVectors; i++) {
      float* to = at.rows + n * at.stride + i * kWidth;
      store(to, fma(k, value.vectors[i], kept * load(to)));
    }
  }
}

// Writes a token into the matrix and reads it with the query.
template <bool kEachKey>
Block written(const Columns& at, const float* query, const float* key, const float* decay, const Block& value) {
  Block even{}, odd{};
  const auto add = [&](int64_t n, Block& sums) {
    const Vec kept = broadcast(kEachKey ? decay[n] : decay[0]), k = broadcast(key[n]), q = broadcast(query[n]);
    for (int i = 0; i < kVectors; i++) {
      float* row = at.rows + n * at.stride + i * kWidth;
      const Vec now = fma(k, value.vectors[i], kept * load(row));
      store(row, now);
      sums.vectors[i] = fma(q, now, sums.vectors[i]);
    }
  };
  for (int64_t n = 0; n + 1 < at.call.keys; n += 2) {
    add(n, even);
    add(n + 1, odd);
  }
  if (at.call.keys % 2) add(at.call.keys - 1, even);
  for (int i = 0; i < kVectors; i++) even.vectors[i] += odd.vectors[i];
  return even;
}

template <bool kEachKey>
void take_token(const Columns& at, int64_t token) {
  const Matrices& call = at.call;
  const int64_t group = call.group_of(at.head), row = token * call.heads + at.head;
  const float *key = call.k + (token * call.groups + group) * call.keys, *decay = call.decay + row * call.decays;
  const float* query = call.q + (token * call.groups + group) * call.keys;
  const Block value = load_block(at, call.v + row * call.values + at.first);
  Block change = value;
  if (call.delta) {
    const Block known = retrieved<kEachKey>(at, key, decay);
    for (int i = 0; i < kVectors; i++) change.vectors[i] -= known.vectors[i];
  }
  for (Vec& vector : change.vectors) vector *= broadcast(call.beta[row]);
  if (token >= call.held.taken) {
    float* logged = call.held.log + (token - call.held.taken) * call.row_width();
    store_block(at, change, logged + call.writes_at() + at.head * call.values + at.first);
  }
  Block result = written<kEachKey>(at, query, key, decay, change);
  for (int i = 0; i < kVectors; i++) {
    result.vectors[i] *= broadcast(call.scale);
    if (call.skip) result.vectors[i] = fma(broadcast(call.skip[at.head]), value.vectors[i], result.vectors[i]);
  }
  store_block(at, result, call.out + row * call.values + at.first);
}

void take_tokens(const Columns& at, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; token++) {
    at.call.decays == 1 ? take_token<false>(at, token) : take_token<true>(at, token);
  }
}

void replay_log(const Columns& at) {
  for (int64_t row = 0; row < at.call.held.replayed; row++) {
    const float* logged = at.call.held.log + row * at.call.row_width();
    at.call.decays == 1 ? replay<false>(at, logged) : replay<true>(at, logged);
  }
}

void copy_columns(const Columns& from, const Columns& to) {
  for (int64_t n = 0; n < from.call.keys; n++) {
    std::memcpy(to.rows + n * to.stride, from.rows + n * from.stride, static_cast<size_t>(from.count) * sizeof(float));
  }
}

struct ColumnScratch {};

// The last columns of a width that is not a multiple of a block are copied to where whole vectors may be written; so are
// all before tokens that may be dropped again.
void walk_columns(const Matrices& call, int64_t head, int64_t first) {
  const int64_t count = std::min<int64_t>(kBlock, call.values - first), taken = call.held.taken;
  float* state = call.held.state + head * call.keys * call.values + first;
  const Columns stored{call, head, first, count, state, call.values};
  const bool whole = count == kBlock;
  const Columns copied{call, head, first, count, scratch<ColumnScratch>({call.keys * kBlock})[0], kBlock};
  if (!whole) {
    std::memset(copied.rows, 0, static_cast<size_t>(call.keys * kBlock) * sizeof(float));
    copy_columns(stored, copied);
  }
  const Columns& walked = whole ? stored : copied;
  replay_log(walked);
  take_tokens(walked, 0, taken);
  if (!whole) copy_columns(copied, stored);
  if (taken == call.tokens) return;
  if (whole) copy_columns(stored, copied);
  take_tokens(copied, taken, call.tokens);
}

// What heads share in the log; no thread reads it any more.
void log_shared(const Matrices& call) {
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  for (int64_t token = call.held.taken; token < call.tokens; token++) {
    float* row = call.held.log + (token - call.held.taken) * call.row_width();
    const int64_t decays = call.heads * call.decays;
    std::memcpy(row, call.k + token * call.decays_at(), bytes(call.decays_at()));
    std::memcpy(row + call.decays_at(), call.decay + token * decays, bytes(decays));
  }
}

void run(const Matrices& call) {
  const int64_t blocks = (call.values + kBlock - 1) / kBlock;
  const int64_t tokens = call.held.replayed + call.tokens;
  const bool worth_waking = tokens * call.heads * call.keys * call.values >= kFloatsWorthWaking;
  for_units(call.heads * blocks, worth_waking,
            [&](int64_t unit) { walk_columns(call, unit / blocks, unit % blocks * kBlock); });
  log_shared(call);
}

void to_unit_length(const float* x, int64_t width, float* out) {
  constexpr float kLengthEps = 1e-6f;  // LENGTH_EPS of ir/recurrence.py
  float squares = 0.0f;
  for (int64_t i = 0; i < width; i++) squares += x[i] * x[i];
  const float factor = 1.0f / std::sqrt(squares + kLengthEps);
  for (int64_t i = 0; i < width; i++) out[i] = x[i] * factor;
}

struct OperandScratch {};

}  // namespace

void delta_rule(const DeltaRule& call) {
  const int64_t rows = call.tokens * call.groups, decays = call.tokens * call.heads * (call.each_key ? call.keys : 1);
  const int64_t unit = call.normalize ? rows * call.keys : 0;
  const auto [q, k, decay] = scratch<OperandScratch>({unit, unit, decays});
  float *queries = q, *keys = k, *factors = decay;
  if (call.normalize) {
    for_rows(rows, 2 * call.keys, [&](int64_t row) {
      to_unit_length(call.q + row * call.keys, call.keys, queries + row * call.keys);
      to_unit_length(call.k + row * call.keys, call.keys, keys + row * call.keys);
    });
  }
  for (int64_t i = 0; i < decays; i++) factors[i] = std::exp(call.g[i]);
  run({call.normalize ? q : call.q, call.normalize ? k : call.k, call.v, decay, call.beta, nullptr, call.tokens,
       call.groups, call.heads, call.keys, call.values, call.each_key ? call.keys : 1, true, call.scale, call.held,
       call.out});
}

void ssd(const Ssd& call) {
  const auto [decay] = scratch<OperandScratch>({call.tokens * call.heads});
  for (int64_t i = 0; i < call.tokens * call.heads; i++) decay[i] = std::exp(call.dt[i] * call.a[i % call.heads]);
  run({call.c, call.b, call.x, decay, call.dt, call.d, call.tokens, call.groups, call.heads, call.keys, call.values, 1,
       false, 1.0f, call.held, call.out});
}

}  // namespace edgec
