// cc -O3 -march=native -pthread limits.c -o limits; ./limits THREADS REPEATS
// One JSON line per repetition: read bandwidth of memory, int8 dot products, float32 multiply-adds; null: no such
// instruction here. An operation is one multiplication or one addition.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { MAX_THREADS = 64, CHAINS = 12, READ_STREAMS = 4 };
static const size_t BYTES = (size_t)512 << 20;
static const long ROUNDS = 2000000;

typedef struct {
  const uint8_t* begin;
  size_t bytes;
  double kept;  // keeps the compiler from dropping the work
} Part;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void* read_memory(void* argument) {
  Part* part = argument;
  const uint64_t* words = (const uint64_t*)part->begin;
  uint64_t sums[8 * READ_STREAMS] = {0};
  for (size_t i = 0; i + 8 * READ_STREAMS <= part->bytes / 8; i += 8 * READ_STREAMS) {
    __builtin_prefetch(words + i + 256);
    __builtin_prefetch(words + i + 264);
    __builtin_prefetch(words + i + 272);
    __builtin_prefetch(words + i + 280);
    for (int j = 0; j < 8 * READ_STREAMS; j++) sums[j] += words[i + j];
  }
  for (int j = 0; j < 8 * READ_STREAMS; j++) part->kept += (double)sums[j];
  return NULL;
}

#if defined(__AVX512F__)
#define FLOAT_LANES 16
typedef __m512 Floats;
static Floats multiply_add(Floats sum, Floats x) { return _mm512_fmadd_ps(x, x, sum); }
static Floats spread(float x) { return _mm512_set1_ps(x); }
#elif defined(__FMA__)
#define FLOAT_LANES 8
typedef __m256 Floats;
static Floats multiply_add(Floats sum, Floats x) { return _mm256_fmadd_ps(x, x, sum); }
static Floats spread(float x) { return _mm256_set1_ps(x); }
#elif defined(__aarch64__)
#define FLOAT_LANES 4
typedef float32x4_t Floats;
static Floats multiply_add(Floats sum, Floats x) { return vfmaq_f32(sum, x, x); }
static Floats spread(float x) { return vdupq_n_f32(x); }
#endif

#if defined(__AVX512VNNI__)
#define INT8_LANES 64
typedef __m512i Ints;
static Ints dot(Ints sum, Ints x) { return _mm512_dpbusd_epi32(sum, x, x); }
static Ints fill(int x) { return _mm512_set1_epi8((char)x); }
#elif defined(__AVX2__)
#define INT8_LANES 32
typedef __m256i Ints;
static Ints dot(Ints sum, Ints x) {
  const __m256i pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), _mm256_set1_epi16(1));
  return _mm256_add_epi32(sum, pairs);
}
static Ints fill(int x) { return _mm256_set1_epi8((char)x); }
#elif defined(__ARM_FEATURE_DOTPROD)
#define INT8_LANES 16
typedef int32x4_t Ints;
static Ints dot(Ints sum, Ints x) { return vdotq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(x)); }
static Ints fill(int x) { return vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x)); }
#endif

// The empty assembly makes each result needed, and its chain as long as written.
#define CHAINED(type, zero, step, seed)                                   \
  type sums[CHAINS];                                                      \
  for (int i = 0; i < CHAINS; i++) sums[i] = zero;                        \
  for (long round = 0; round < ROUNDS; round++) {                         \
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {           \
      sums[i] = step(sums[i], seed);                                      \
      __asm__ volatile("" : LOOP_REGISTER(sums[i]));                      \
    }                                                                     \
  }                                                                       \
  memcpy(&part->kept, &sums[0], sizeof part->kept)
#if defined(__x86_64__)
#define LOOP_REGISTER(x) "+x"(x)
#else
#define LOOP_REGISTER(x) "+w"(x)
#endif

#if defined(FLOAT_LANES)
static void* compute_floats(void* argument) {
  Part* part = argument;
  const Floats seed = spread(0.5f);
  CHAINED(Floats, spread(0.0f), multiply_add, seed);
  return NULL;
}
#endif

#if defined(INT8_LANES)
static void* compute_ints(void* argument) {
  Part* part = argument;
  const Ints seed = fill(1);
  CHAINED(Ints, fill(0), dot, seed);
  return NULL;
}
#endif

static double in_threads(int threads, void* (*work)(void*), Part* parts) {
  pthread_t handles[MAX_THREADS];
  const double began = seconds();
  for (int i = 1; i < threads; i++) pthread_create(&handles[i], NULL, work, &parts[i]);
  work(&parts[0]);
  for (int i = 1; i < threads; i++) pthread_join(handles[i], NULL);
  return seconds() - began;
}

static void print_rate(const char* name, double amount, double wall_s, const char* end) {
  printf("\"%s\": %.4g%s", name, amount / wall_s / 1e9, end);
}

int main(int count, char** arguments) {
  const int threads = count > 1 ? atoi(arguments[1]) : 1, repeats = count > 2 ? atoi(arguments[2]) : 5;
  if (threads < 1 || threads > MAX_THREADS) return 1;
  uint8_t* memory = aligned_alloc(4096, BYTES);
  if (memory == NULL) return 2;
  memset(memory, 1, BYTES);
  Part parts[MAX_THREADS];
  const size_t share = BYTES / threads / 4096 * 4096;
  for (int i = 0; i < threads; i++) parts[i] = (Part){memory + i * share, share, 0};
  const double steps = (double)ROUNDS * CHAINS * threads;
  for (int r = 0; r < repeats; r++) {
    printf("{\"threads\": %d, ", threads);
    print_rate("read_gb_per_s", (double)share * threads, in_threads(threads, read_memory, parts), ", ");
#if defined(INT8_LANES)
    print_rate("int8_gops", 2 * INT8_LANES * steps, in_threads(threads, compute_ints, parts), ", ");
#else
    printf("\"int8_gops\": null, ");
#endif
#if defined(FLOAT_LANES)
    print_rate("fp32_gflops", 2 * FLOAT_LANES * steps, in_threads(threads, compute_floats, parts), "}\n");
#else
    printf("\"fp32_gflops\": null}\n");
#endif
    fflush(stdout);
  }
  return 0;
}
