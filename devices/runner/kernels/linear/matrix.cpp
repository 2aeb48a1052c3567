#include "matrix.h"

#include <cstring>

namespace edgec::linear {
namespace {

// A plane of `bits` bits of a slice: where its lines begin, and how many bits of a code lie below it.
struct Plane {
  int bits;
  int below;
  int64_t start;
};

struct Planes {
  Plane plane[2];
  int count;
};

Planes planes_of(const Matrix& matrix) {
  if (matrix.bits != 3) return {{{matrix.bits, 0, 0}, {0, 0, 0}}, 1};
  return {{{2, 0, 0}, {1, 2, matrix.block_rows() * kSlice * 2 / 8}}, 2};
}

// A value's vector and its byte in that vector.
struct Place {
  int64_t vector;
  int64_t byte;
};

Place place_of(Layout layout, int64_t row, int64_t value) {
  if (layout == Layout::kRows16) return {value / 4, row * 4 + value % 4};
  return {value / 8 * 4 + row / 2, row % 2 * 8 + value % 8};
}

int64_t vector_bytes(Layout layout) {
  return layout == Layout::kRows16 ? 64 : 16;
}

uint8_t inverted(const Matrix& matrix) {
  return matrix.layout == Layout::kRows8 ? static_cast<uint8_t>(1 << (matrix.bits - 1)) : 0;
}

const uint8_t* slice_at(const Matrix& matrix, const uint8_t* block, int64_t slice) {
  const int64_t group = slice / matrix.group_slices();
  return block + group * matrix.group_bytes() + slice % matrix.group_slices() * matrix.slice_bytes();
}

uint8_t code_at(const Matrix& matrix, const Planes& planes, const uint8_t* slice, int64_t row, int64_t value) {
  const Place place = place_of(matrix.layout, row, value);
  uint8_t code = 0;
  for (int i = 0; i < planes.count; i++) {
    const Plane& plane = planes.plane[i];
    const int64_t line = place.vector * plane.bits / 8, shift = place.vector * plane.bits % 8;
    const uint8_t byte = slice[plane.start + line * vector_bytes(matrix.layout) + place.byte];
    code |= static_cast<uint8_t>((byte >> shift & ((1 << plane.bits) - 1)) << plane.below);
  }
  return code ^ inverted(matrix);
}

constexpr int64_t kMostVectorBytes = 64;

int64_t vectors(const Matrix& matrix) {
  return matrix.block_rows() * kSlice / vector_bytes(matrix.layout);
}

// The codes of vector n of a slice, in the order of its bytes.
void read_vector(const Matrix& matrix, const Planes& planes, const uint8_t* slice, int64_t n, uint8_t* codes) {
  const int64_t bytes = vector_bytes(matrix.layout);
  std::memset(codes, inverted(matrix), bytes);
  for (int i = 0; i < planes.count; i++) {
    const Plane plane = planes.plane[i];
    const uint8_t* line = slice + plane.start + n * plane.bits / 8 * bytes;
    const int shift = static_cast<int>(n * plane.bits % 8), mask = (1 << plane.bits) - 1;
    for (int64_t j = 0; j < bytes; j++) codes[j] ^= static_cast<uint8_t>((line[j] >> shift & mask) << plane.below);
  }
}

// Adds the codes of vector n to a slice that was zero.
void write_vector(const Matrix& matrix, const Planes& planes, const uint8_t* codes, int64_t n, uint8_t* slice) {
  const int64_t bytes = vector_bytes(matrix.layout);
  for (int i = 0; i < planes.count; i++) {
    const Plane plane = planes.plane[i];
    uint8_t* line = slice + plane.start + n * plane.bits / 8 * bytes;
    const int shift = static_cast<int>(n * plane.bits % 8), mask = (1 << plane.bits) - 1;
    for (int64_t j = 0; j < bytes; j++) {
      line[j] |= static_cast<uint8_t>(((codes[j] ^ inverted(matrix)) >> plane.below & mask) << shift);
    }
  }
}

// Calls use(bytes of the vector, codes of the slice, how many) for each run of values of one row in vector n.
template <typename Use>
void for_runs(Layout layout, int64_t n, const Use& use) {
  const int64_t run = layout == Layout::kRows16 ? 4 : 8, rows = layout == Layout::kRows16 ? 16 : 2;
  const int64_t first_row = layout == Layout::kRows16 ? 0 : n % 4 * 2;
  const int64_t first_value = layout == Layout::kRows16 ? n * 4 : n / 4 * 8;
  for (int64_t row = 0; row < rows; row++) use(row * run, (first_row + row) * kSlice + first_value, run);
}

// codes [block_rows][kSlice].
void write_slice(const Matrix& matrix, const uint8_t* codes, uint8_t* slice) {
  const Planes planes = planes_of(matrix);
  uint8_t vector[kMostVectorBytes];
  std::memset(slice, 0, matrix.slice_bytes());
  for (int64_t n = 0; n < vectors(matrix); n++) {
    for_runs(matrix.layout, n, [&](int64_t in_vector, int64_t in_slice, int64_t run) {
      std::memcpy(vector + in_vector, codes + in_slice, run);
    });
    write_vector(matrix, planes, vector, n, slice);
  }
}

// Copies the row's entries of every array that stands beside the codes.
void relay_row(const Matrix& from, int64_t row, const Matrix& to, uint8_t* data) {
  const int64_t source_row = row % from.block_rows(), target_row = row % to.block_rows();
  const uint8_t* source = from.block(row / from.block_rows());
  uint8_t* target = data + row / to.block_rows() * to.block_bytes();
  for (int64_t group = 0; from.group != 0 && group < from.groups(); group++) {
    const uint8_t* scales = source + group * from.group_bytes() + from.group_slices() * from.slice_bytes();
    uint8_t* copied = target + group * to.group_bytes() + to.group_slices() * to.slice_bytes();
    std::memcpy(copied + target_row * 2, scales + source_row * 2, 2);
  }
  const uint8_t* source_tail = source + from.groups() * from.group_bytes();
  uint8_t* target_tail = target + to.groups() * to.group_bytes();
  for (int64_t array = 0; array < (from.group == 0 ? 2 : 1); array++) {
    const uint8_t* entry = source_tail + (array * from.block_rows() + source_row) * 4;
    std::memcpy(target_tail + (array * to.block_rows() + target_row) * 4, entry, 4);
  }
}

}  // namespace

bool is_matrix(const Matrix& matrix) {
  // Products of such sizes stay within 64 bits.
  constexpr int64_t kMost = int64_t{1} << 26;
  const bool sized = matrix.rows > 0 && matrix.rows <= kMost && matrix.width > 0 && matrix.width <= kMost / 64;
  const bool coded = matrix.bits == 2 || matrix.bits == 3 || matrix.bits == 4 || matrix.bits == 8;
  const bool grouped = matrix.group == 0 || (matrix.group > 0 && matrix.group % kSlice == 0 && matrix.group <= 1024 &&
                                             matrix.width % matrix.group == 0);
  const bool laid = matrix.layout == Layout::kRows16 || matrix.layout == Layout::kRows8;
  const bool valued = (matrix.step == 1 || matrix.step == 2) && matrix.offset >= 0 && matrix.offset <= 128;
  if (!sized || !coded || !grouped || !laid || !valued) return false;
  // Sums of codes and of tokens stay within 32 bits.
  const int64_t largest = matrix.step * (int64_t{1} << matrix.bits) + matrix.offset;
  const bool summed = largest * 128 * matrix.group_slices() * kSlice <= INT32_MAX;
  return summed && (matrix.bits != 8 || (matrix.step == 1 && matrix.group == 0));
}

float scale_at(const Matrix& matrix, const uint8_t* block, int64_t row, int64_t group) {
  float scale;
  if (matrix.group == 0) {
    std::memcpy(&scale, block + matrix.block_bytes() - (matrix.block_rows() - row) * 4, 4);
    return scale;
  }
  uint16_t high;
  std::memcpy(&high, block + (group + 1) * matrix.group_bytes() - (matrix.block_rows() - row) * 2, 2);
  const uint32_t bits = static_cast<uint32_t>(high) << 16;
  std::memcpy(&scale, &bits, 4);
  return scale;
}

void read_slice(const Matrix& matrix, const uint8_t* block, int64_t slice, uint8_t* codes) {
  const Planes planes = planes_of(matrix);
  const uint8_t* from = slice_at(matrix, block, slice);
  uint8_t vector[kMostVectorBytes];
  for (int64_t n = 0; n < vectors(matrix); n++) {
    read_vector(matrix, planes, from, n, vector);
    for_runs(matrix.layout, n, [&](int64_t in_vector, int64_t in_slice, int64_t run) {
      std::memcpy(codes + in_slice, vector + in_vector, run);
    });
  }
}

void read_row(const Matrix& matrix, int64_t row, float* values) {
  const Planes planes = planes_of(matrix);
  const int64_t inside = row % matrix.block_rows();
  const uint8_t* block = matrix.block(row / matrix.block_rows());
  for (int64_t slice = 0; slice < matrix.slices(); slice++) {
    const uint8_t* from = slice_at(matrix, block, slice);
    const float scale = scale_at(matrix, block, inside, slice / matrix.group_slices());
    for (int64_t i = 0; i < kSlice && slice * kSlice + i < matrix.width; i++) {
      const int value = matrix.step * code_at(matrix, planes, from, inside, i) - matrix.offset;
      values[slice * kSlice + i] = static_cast<float>(value) * scale;
    }
  }
}

void relay(const Matrix& matrix, Layout layout, uint8_t* to) {
  Matrix target = matrix;
  target.layout = layout;
  std::memset(to, 0, target.bytes());
  uint8_t read[16 * kSlice], codes[16 * kSlice];
  for (int64_t block = 0; block < target.blocks(); block++) {
    uint8_t* written = to + block * target.block_bytes();
    for (int64_t slice = 0; slice < target.slices(); slice++) {
      for (int64_t done = 0; done < target.block_rows();) {
        const int64_t row = block * target.block_rows() + done;
        const int64_t rows = target.block_rows() < matrix.block_rows() ? target.block_rows() : matrix.block_rows();
        if (row < matrix.blocks() * matrix.block_rows()) {
          read_slice(matrix, matrix.block(row / matrix.block_rows()), slice, read);
          std::memcpy(codes + done * kSlice, read + row % matrix.block_rows() * kSlice, rows * kSlice);
        } else {
          std::memset(codes + done * kSlice, 0, rows * kSlice);
        }
        done += rows;
      }
      const int64_t group = slice / target.group_slices();
      uint8_t* at = written + group * target.group_bytes() + slice % target.group_slices() * target.slice_bytes();
      write_slice(target, codes, at);
    }
  }
  for (int64_t row = 0; row < matrix.rows; row++) relay_row(matrix, row, target, to);
}

}  // namespace edgec::linear
