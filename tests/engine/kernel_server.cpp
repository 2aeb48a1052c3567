// The kernels as a server over pipes, for tests of another processor: calls come on stdin, results go to stdout.
//
// A call is a letter, COUNT numbers (int64), and blobs; a blob is its length (int64) and its bytes, -1 stands for null.
// What a call wrote goes back as its bytes, one blob after the other, without lengths: the caller knows them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

struct PlainStored {
  const void* data;
  const uint16_t* grid;
  int64_t kind, heads, width, group;
};

struct PlainGeometry {
  int64_t ring, sink, window, last;
};

extern "C" {
void test_attend(
    const float*, const int64_t*, int64_t, int64_t, const PlainStored*, const PlainStored*, const PlainGeometry*, float,
    float, const float*, float*);
void test_write(const float*, const int64_t*, int64_t, const PlainStored*, const PlainGeometry*);
void test_rms_norm(const float*, const float*, float, int64_t, int64_t, float*);
void test_rope(const float*, const float*, const float*, int64_t, int64_t, int64_t, int64_t, float*);
void test_state(int64_t, const int64_t*, float, const float* const*, float*, float*, const int64_t*, float*);
void test_recurrent(const int64_t*, const float*, const float*, const float*, const void*, const float*, float*);
void test_experts(const float*, const int64_t*, const float*, const float*, const int64_t*, float*);
}

namespace {

void read_all(void* to, size_t bytes) {
  if (std::fread(to, 1, bytes, stdin) != bytes) {
    std::exit(0);  // The other side has gone.
  }
}

std::vector<int64_t> numbers(size_t count) {
  std::vector<int64_t> numbers(count);
  read_all(numbers.data(), count * sizeof(int64_t));
  return numbers;
}

struct Blob {
  int64_t bytes = numbers(1)[0];
  std::unique_ptr<char[]> data{bytes < 0 ? nullptr : new char[static_cast<size_t>(bytes)]};

  Blob() {
    if (bytes > 0) {
      read_all(data.get(), static_cast<size_t>(bytes));
    }
  }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data.get());
  }
};

void answer(const void* data, int64_t bytes) {
  std::fwrite(data, 1, static_cast<size_t>(bytes > 0 ? bytes : 0), stdout);
}

float real(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<float>(value);
}

PlainStored stored(const Blob& data, const Blob& grid, const int64_t* n) {
  return {data.as<void>(), grid.as<uint16_t>(), n[0], n[1], n[2], n[3]};
}

void attend() {
  const auto n = numbers(16);
  const Blob q, positions, keys, key_grid, values, value_grid, sinks;
  const PlainStored k = stored(keys, key_grid, &n[2]), v = stored(values, value_grid, &n[6]);
  const PlainGeometry geometry{n[10], n[11], n[12], n[13]};
  std::vector<float> out(static_cast<size_t>(n[0] * n[1] * v.width));
  test_attend(q.as<float>(), positions.as<int64_t>(), n[0], n[1], &k, &v, &geometry, real(n[14]), real(n[15]),
              sinks.as<float>(), out.data());
  answer(out.data(), static_cast<int64_t>(out.size() * sizeof(float)));
}

void write() {
  const auto n = numbers(9);
  const Blob value, positions, cache, grid;
  const PlainStored into = stored(cache, grid, &n[1]);
  const PlainGeometry geometry{n[5], n[6], n[7], n[8]};
  test_write(value.as<float>(), positions.as<int64_t>(), n[0], &into, &geometry);
  answer(cache.as<void>(), cache.bytes);
  answer(grid.as<void>(), grid.bytes);
}

void norm() {
  const auto n = numbers(3);
  const Blob x, weight;
  std::vector<float> out(static_cast<size_t>(n[0] * n[1]));
  test_rms_norm(x.as<float>(), weight.as<float>(), real(n[2]), n[0], n[1], out.data());
  answer(out.data(), x.bytes);
}

void rope() {
  const auto n = numbers(4);
  const Blob x, cos, sin;
  std::vector<float> out(static_cast<size_t>(n[0] * n[1] * n[2]));
  test_rope(x.as<float>(), cos.as<float>(), sin.as<float>(), n[0], n[1], n[2], n[3], out.data());
  answer(out.data(), x.bytes);
}

void state() {
  const auto n = numbers(12);  // which, its sizes, the scale, floats of the result, tokens replayed and taken
  const Blob blobs[8];
  const float* operands[6];
  for (int i = 0; i < 6; i++) operands[i] = blobs[i].as<float>();
  std::vector<float> out(static_cast<size_t>(n[9]));
  test_state(n[0], &n[1], real(n[8]), operands, blobs[6].as<float>(), blobs[7].as<float>(), &n[10], out.data());
  answer(out.data(), n[9] * static_cast<int64_t>(sizeof(float)));
  answer(blobs[6].as<void>(), blobs[6].bytes);
  answer(blobs[7].as<void>(), blobs[7].bytes);
}

void experts() {
  const auto n = numbers(6);  // tokens, choices, rows of x for a token, experts, rows, width
  const Blob x, index, weight, bias;
  std::vector<float> out(static_cast<size_t>(n[0] * n[1] * n[4]));
  test_experts(x.as<float>(), index.as<int64_t>(), weight.as<float>(), bias.as<float>(), n.data(), out.data());
  answer(out.data(), static_cast<int64_t>(out.size() * sizeof(float)));
}

void recurrent() {
  const auto n = numbers(6);  // as in kernel_entry.cpp
  const Blob given, hidden, second, weight, scales;
  std::vector<float> out(static_cast<size_t>(n[1] * (n[2] + (n[0] == 0)) * n[4]));
  test_recurrent(n.data(), given.as<float>(), hidden.as<float>(), second.as<float>(), weight.as<void>(),
                 scales.as<float>(), out.data());
  answer(out.data(), static_cast<int64_t>(out.size() * sizeof(float)));
}

void serve(int verb) {
  switch (verb) {
    case 'a':
      return attend();
    case 'w':
      return write();
    case 'n':
      return norm();
    case 's':
      return state();
    case 'l':
      return recurrent();
    case 'e':
      return experts();
    default:
      return rope();
  }
}

}  // namespace

int main() {
  for (int verb; (verb = std::getchar()) != EOF; std::fflush(stdout)) {
    serve(verb);
  }
}
