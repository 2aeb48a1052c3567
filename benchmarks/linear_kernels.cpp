// Times the kernels of linear layers on one thread: linear_kernels ROUNDS FILE, where the file has lines of "rows width
// bits step offset group scales tokens" (matrix.h names the scales). For each it prints a line of JSON per variant: every kernel of the processor,
// quantisation included, and plain reading of the matrix. Variants take turns; time is that of the thread, so that
// other processes cost caches and memory bandwidth, but not the time in which they hold the core.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/linear/kernel.h"

namespace {

using edgec::linear::Kernel;
using edgec::linear::kSlice;
using edgec::linear::Matrix;
using edgec::linear::Scales;
using edgec::linear::Tokens;

constexpr double kLeastSeconds = 2e-3;  // of a measurement: short calls are repeated
constexpr double kMostPlain = 4e6;      // products: the plain kernel is too slow for more

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Random codes with scales around 0.01, on a page of their own.
struct Weights {
  uint8_t* data;

  explicit Weights(Matrix& matrix) {
    constexpr size_t kPage = 4096;
    const auto bytes = static_cast<size_t>(matrix.bytes());
    data = static_cast<uint8_t*>(std::aligned_alloc(kPage, (bytes / kPage + 2) * kPage));
    std::mt19937_64 random(1);
    for (size_t i = 0; i < bytes; i += 8) {
      const uint64_t next = random();
      std::memcpy(data + i, &next, 8);
    }
    matrix.data = data;
    for (int64_t block = 0; block < matrix.blocks(); block++) write_scales(matrix, data + block * matrix.block_bytes());
  }

  // Bytes that are small normal numbers as float16 and as float32, and scales and minimums of few bits besides.
  static void write_scales(const Matrix& matrix, uint8_t* block) {
    const uint16_t scale = 0x3c24;
    for (int64_t run = 1; matrix.scales == Scales::kBfloat16 && run <= matrix.runs(); run++) {
      uint8_t* end = block + run * matrix.run_bytes();
      for (int64_t row = 1; row <= matrix.block_rows(); row++) std::memcpy(end - 2 * row, &scale, 2);
    }
    std::memset(block + matrix.runs() * matrix.run_bytes(), 0x1c, static_cast<size_t>(matrix.tail_bytes()));
  }

  ~Weights() { std::free(data); }
};

// As in region/group.cpp.
constexpr int64_t kRowsAtOnce = 64, kTokensAtOnce = 96;

struct Layer {
  const Matrix& matrix;
  std::vector<float> x, out, part, scales, totals;
  std::vector<int8_t> values, pairs;
  std::vector<int32_t> sums;
  Tokens tokens;
  volatile uint64_t read = 0;

  Layer(const Matrix& of, int64_t count)
      : matrix(of), x(count * of.width), out(count * of.rows),
        part(kTokensAtOnce * kRowsAtOnce), scales(count * of.slices()), totals(count * of.slices()),
        values(count * of.slices() * kSlice), pairs((count + 1) / 2 * 2 * of.slices() * kSlice),
        sums(count * of.slices()),
        tokens{count, of.slices(), values.data(), pairs.data(), sums.data(), scales.data(), totals.data()} {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(random);
  }

  void quantize(const Kernel& kernel) { kernel.quantize(x.data(), matrix.width, 0, tokens.count, tokens); }

  void multiply(const Kernel& kernel) {
    quantize(kernel);
    for (int64_t first = 0; first < matrix.rows; first += kRowsAtOnce) {
      for (int64_t token = 0; token < tokens.count; token += kTokensAtOnce) multiply_part(kernel, first, token);
    }
  }

 private:
  // As region/group.cpp calls it: the results of some rows and tokens are copied while they lie in a cache.
  void multiply_part(const Kernel& kernel, int64_t first_row, int64_t first_token) {
    const int64_t rows = std::min(kRowsAtOnce, matrix.rows - first_row), block_rows = matrix.block_rows();
    const int64_t count = std::min(kTokensAtOnce, tokens.count - first_token);
    kernel.multiply(matrix, first_row / block_rows, (rows + block_rows - 1) / block_rows, tokens, first_token,
                    count, part.data(), kRowsAtOnce);
    for (int64_t i = 0; i < count; i++) {
      float* to = out.data() + (first_token + i) * matrix.rows + first_row;
      std::memcpy(to, part.data() + i * kRowsAtOnce, static_cast<size_t>(rows) * sizeof(float));
    }
  }
};

// The exclusive or of all 64-bit words, in independent vectors.
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
uint64_t read_all(const uint8_t* data, int64_t bytes) {
  using Words [[gnu::vector_size(32)]] = uint64_t;
  Words sums[4] = {};
  for (int64_t i = 0; i + 128 <= bytes; i += 128) {
    for (int part = 0; part < 4; part++) sums[part] ^= *reinterpret_cast<const Words*>(data + i + part * 32);
  }
  const Words all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[1] ^ all[2] ^ all[3];
}

struct Variant {
  std::string name;
  std::function<void()> call;
  int repeats;
  std::vector<double> seconds;

  Variant(std::string its_name, std::function<void()> its_call)
      : name(std::move(its_name)), call(std::move(its_call)), repeats(1) {}

  double once() const {
    const double began = thread_seconds();
    for (int i = 0; i < repeats; i++) call();
    return (thread_seconds() - began) / repeats;
  }
};

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

std::vector<Variant> variants_of(Layer& layer) {
  std::vector<Variant> variants;
  const auto available = edgec::linear::available_kernels();
  const Matrix& matrix = layer.matrix;
  for (int i = 0; i < available.count; i++) {
    const Kernel& kernel = *available.kernels[i];
    const double products = static_cast<double>(matrix.rows * matrix.width * layer.tokens.count);
    if (std::strcmp(kernel.name, "plain") == 0 && products > kMostPlain) continue;
    variants.emplace_back(kernel.name, [&] { layer.multiply(kernel); });
    variants.emplace_back(std::string("quantize ") + kernel.name, [&] { layer.quantize(kernel); });
  }
  variants.emplace_back("read", [&] { layer.read = read_all(matrix.data, matrix.bytes()); });
  return variants;
}

void measure(const Matrix& matrix, const char* scales, int64_t tokens, int rounds) {
  Layer layer(matrix, tokens);
  std::vector<Variant> variants = variants_of(layer);
  for (Variant& variant : variants) variant.repeats = std::max(1, static_cast<int>(kLeastSeconds / variant.once()));
  for (int round = 0; round < rounds; round++) {
    for (Variant& variant : variants) variant.seconds.push_back(variant.once());
  }
  for (const Variant& variant : variants) {
    std::printf("{\"rows\": %ld, \"width\": %ld, \"bits\": %d, \"step\": %d, \"group\": %ld, \"scales\": \"%s\", ",
                matrix.rows, matrix.width, matrix.bits, matrix.step, matrix.group, scales);
    std::printf("\"tokens\": %ld, \"bytes\": %ld, ", tokens, matrix.bytes());
    std::printf("\"variant\": \"%s\", \"median_s\": %.4g, \"p10_s\": %.4g, \"p90_s\": %.4g, \"least_s\": %.4g}\n",
                variant.name.c_str(), quantile(variant.seconds, 0.5), quantile(variant.seconds, 0.1),
                quantile(variant.seconds, 0.9), quantile(variant.seconds, 0));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::FILE* cases = count == 3 ? std::fopen(arguments[2], "r") : nullptr;
  if (cases == nullptr) return 2;
  const int rounds = std::atoi(arguments[1]);
  Matrix matrix{};
  int64_t tokens;
  char scales[32];
  while (std::fscanf(cases, "%ld %ld %d %d %d %ld %31s %ld", &matrix.rows, &matrix.width, &matrix.bits, &matrix.step,
                     &matrix.offset, &matrix.group, scales, &tokens) == 8) {
    matrix.scales = edgec::linear::scales_named(scales);
    matrix.layout = edgec::linear::kernel_in_force().layout;
    if (!edgec::linear::is_matrix(matrix)) return 1;
    const Weights weights(matrix);
    measure(matrix, scales, tokens, rounds);
  }
  std::fclose(cases);
  return 0;
}
