// The kernels for a test that has plain memory: ctypes calls these with the addresses of torch's tensors.
#include "kernels/attention.h"
#include "kernels/cache_write.h"
#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "kernels/parallel.h"
#include "kernels/recurrent_layers.h"
#include "kernels/region/activation.h"
#include "kernels/states.h"

namespace {

// As ctypes lays it out in tests/engine/kernel_library.py.
struct PlainStored {
  const void* data;
  const uint16_t* grid;
  int64_t kind, heads, width, group;

  edgec::Stored stored() const {
    return {data, grid, static_cast<edgec::Kind>(kind), heads, static_cast<int>(width), static_cast<int>(group)};
  }
};

struct PlainGeometry {
  int64_t ring, sink, window, last;

  edgec::Geometry geometry() const { return {ring, sink, window, last}; }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void test_use_threads(int64_t threads) {
  executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(static_cast<uint32_t>(threads));
}

extern "C" __attribute__((visibility("default"))) void test_attend(
    const float* q, const int64_t* positions, int64_t queries, int64_t heads, const PlainStored* keys,
    const PlainStored* values, const PlainGeometry* geometry, float scale, float softcap, const float* sink_logits,
    float* out) {
  edgec::attend({q, positions, queries, heads, keys->stored(), values->stored(), geometry->geometry(), scale, softcap,
                 sink_logits, out});
}

extern "C" __attribute__((visibility("default"))) void test_write(const float* value, const int64_t* positions,
                                                                  int64_t tokens, const PlainStored* cache,
                                                                  const PlainGeometry* geometry) {
  edgec::write_cache({value, positions, tokens, cache->stored(), geometry->geometry()});
}

extern "C" __attribute__((visibility("default"))) void test_rms_norm(const float* x, const float* weight, float eps,
                                                                     int64_t rows, int64_t width, float* out) {
  edgec::rms_norm(x, weight, eps, rows, width, out);
}

extern "C" __attribute__((visibility("default"))) void test_activate(int64_t which, float* x, int64_t count) {
  edgec::activate(static_cast<edgec::Activation>(which), x, count);
}

extern "C" __attribute__((visibility("default"))) void test_rope(const float* x, const float* cos, const float* sin,
                                                                 int64_t tokens, int64_t heads, int64_t width,
                                                                 int64_t rotated, float* out) {
  edgec::rope({x, cos, sin, tokens, heads, width, rotated, out});
}

// Which of states.h's kernels, its sizes and operands in the order of its struct; progress: tokens replayed and taken.
extern "C" __attribute__((visibility("default"))) void test_state(int64_t which, const int64_t* n, float scale,
                                                                  const float* const* x, float* state, float* log,
                                                                  const int64_t* progress, float* out) {
  const edgec::Held held{state, log, progress[0], progress[1]};
  switch (which) {
    case 0:
      return edgec::causal_conv({x[0], x[1], x[2], n[0], n[1], n[2], n[3] != 0, held, out});
    case 1:
      return edgec::delta_rule({x[0], x[1], x[2], x[3], x[4], n[0], n[1], n[2], n[3], n[4], n[5] != 0, n[6] != 0,
                                scale, held, out});
    case 2:
      return edgec::ssd({x[0], x[1], x[2], x[3], x[4], x[5], n[0], n[1], n[2], n[3], n[4], held, out});
    case 3:
      return edgec::selective_scan({x[0], x[1], x[2], x[3], x[4], x[5], n[0], n[1], n[2], held, out});
    case 4:
      return edgec::linear_recurrence({x[0], x[1], n[0], n[1], held, out});
    default:
      return edgec::wkv({x[0], x[1], x[2], x[3], n[0], n[1], held, out});
  }
}

// Sizes: whether it is a GRU, sequences, steps, rows, width, whether backwards. Scales are null beside floats.
extern "C" __attribute__((visibility("default"))) void test_recurrent(const int64_t* n, const float* given,
                                                                      const float* hidden, const float* second,
                                                                      const void* weight, const float* scales,
                                                                      float* out) {
  const bool bytes = scales != nullptr;
  const edgec::RecurrentMatrix matrix{bytes ? nullptr : static_cast<const float*>(weight),
                                      bytes ? static_cast<const int8_t*>(weight) : nullptr, scales, n[3], n[4]};
  const edgec::RecurrentLayer layer{given, hidden, matrix, n[1], n[2], n[5] != 0, out};
  return n[0] != 0 ? edgec::gru(layer, second) : edgec::lstm(layer, second);
}

extern "C" __attribute__((visibility("default"))) void test_experts(const float* x, const int64_t* index,
                                                                    const float* weight, const float* bias,
                                                                    const int64_t* sizes, float* out) {
  edgec::multiply_experts({x, index, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], bias, out}, weight);
}
