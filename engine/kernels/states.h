// Recurrences and short convolutions over a state that is continued in place; ir/recurrence.py says what they mean.
//
// Tokens follow one another whatever their number: a token's values do not depend on what else is in its call. The last
// ones of a call may be dropped again: the state stops before them, and the log keeps what they write into it
// (ir/state_operators.py says how a row of it is made up).
#pragma once

#include <cstdint>

namespace edgec {

// What a sequence has left behind, and how far.
struct Held {
  float* state;
  float* log;        // [.., width of a row]
  int64_t replayed;  // rows of the log that the state takes in before the call's tokens
  int64_t taken;     // the call's tokens that it takes in, at least one; the others go into the log
};

struct CausalConv {
  const float* x;       // [tokens, channels]
  const float* weight;  // [taps, channels]
  const float* bias;    // [channels] or null
  int64_t tokens, channels, taps;
  bool silu;
  Held held;   // state [taps - 1, channels]: the tokens before
  float* out;  // [tokens, channels]
};

void causal_conv(const CausalConv& call);

struct DeltaRule {
  const float* q;     // [tokens, groups, keys]
  const float* k;     // [tokens, groups, keys]
  const float* v;     // [tokens, heads, values]
  const float* g;     // [tokens, heads] or [tokens, heads, keys]
  const float* beta;  // [tokens, heads]
  int64_t tokens, groups, heads, keys, values;
  bool each_key;  // g has a value for every key
  bool normalize;
  float scale;
  Held held;   // state [heads, keys, values]
  float* out;  // [tokens, heads, values]
};

void delta_rule(const DeltaRule& call);

struct Ssd {
  const float* x;   // [tokens, heads, values]
  const float* dt;  // [tokens, heads]
  const float* a;   // [heads]
  const float* b;   // [tokens, groups, keys]
  const float* c;   // [tokens, groups, keys]
  const float* d;   // [heads] or null
  int64_t tokens, groups, heads, keys, values;
  Held held;   // state [heads, keys, values]
  float* out;  // [tokens, heads, values]
};

void ssd(const Ssd& call);

struct SelectiveScan {
  const float* x;   // [tokens, channels]
  const float* dt;  // [tokens, channels]
  const float* a;   // [keys, channels]
  const float* b;   // [tokens, keys]
  const float* c;   // [tokens, keys]
  const float* d;   // [channels] or null
  int64_t tokens, channels, keys;
  Held held;   // state [keys, channels]
  float* out;  // [tokens, channels]
};

void selective_scan(const SelectiveScan& call);

struct LinearRecurrence {
  const float* x;      // [tokens, channels]
  const float* decay;  // [tokens, channels]
  int64_t tokens, channels;
  Held held;   // state [channels]
  float* out;  // [tokens, channels]
};

void linear_recurrence(const LinearRecurrence& call);

struct Wkv {
  const float* k;      // [tokens, channels]
  const float* v;      // [tokens, channels]
  const float* decay;  // [channels], logarithms
  const float* first;  // [channels]
  int64_t tokens, channels;
  Held held;   // state [3, channels]: numerator, denominator, greatest exponent
  float* out;  // [tokens, channels]
};

void wkv(const Wkv& call);

}  // namespace edgec
