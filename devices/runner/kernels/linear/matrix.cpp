#include "matrix.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

// How a slice is cut into vectors, known to the compiler: constant sizes become the moves and shifts of whole registers.
template <Layout kLayout>
struct Cut {
  static constexpr bool kWide = kLayout == Layout::kRows16;
  static constexpr int64_t kRows = static_cast<int64_t>(kLayout), kBytes = kWide ? 64 : 16, kRun = kWide ? 4 : 8;
  static constexpr int64_t kCodes = kRows * kSlice, kVectors = kCodes / kBytes;

  // Where the run of values at `at` of the vectors, one after the other, lies among the codes [kRows][kSlice].
  static constexpr int64_t among_codes(int64_t at) {
    const int64_t n = at / kBytes, row = at % kBytes / kRun;
    return kWide ? row * kSlice + n * 4 : (n % 4 * 2 + row) * kSlice + n / 4 * 8;
  }
};

// Eight codes at once: shifted as one number, then masked, so that no bit of a neighbour stays.
using Codes8 = uint64_t;

constexpr Codes8 eight(int code) {
  return Codes8{0x0101010101010101} * static_cast<Codes8>(code);
}

// Adds a plane of kBits bits, which lie kBelow bits high in a code, to the vectors of a slice.
template <Layout kLayout, int kBits, int kBelow>
void read_plane(const uint8_t* plane, uint8_t* vectors) {
  constexpr int64_t kBytes = Cut<kLayout>::kBytes, kEach = 8 / kBits, kLines = Cut<kLayout>::kVectors / kEach;
  for (int64_t line = 0; line < kLines; line++) {
    for (int64_t k = 0; k < kEach; k++) {
      for (int64_t j = 0; j < kBytes; j += 8) {
        Codes8 bits, codes;
        std::memcpy(&bits, plane + line * kBytes + j, 8);
        std::memcpy(&codes, vectors + (line * kEach + k) * kBytes + j, 8);
        codes ^= (bits >> k * kBits & eight((1 << kBits) - 1)) << kBelow;
        std::memcpy(vectors + (line * kEach + k) * kBytes + j, &codes, 8);
      }
    }
  }
}

template <Layout kLayout, int kBits, int kBelow>
void write_plane(const uint8_t* vectors, uint8_t* plane) {
  constexpr int64_t kBytes = Cut<kLayout>::kBytes, kEach = 8 / kBits, kLines = Cut<kLayout>::kVectors / kEach;
  for (int64_t line = 0; line < kLines; line++) {
    for (int64_t j = 0; j < kBytes; j += 8) {
      Codes8 bits = 0, codes;
      for (int64_t k = 0; k < kEach; k++) {
        std::memcpy(&codes, vectors + (line * kEach + k) * kBytes + j, 8);
        bits |= (codes >> kBelow & eight((1 << kBits) - 1)) << k * kBits;
      }
      std::memcpy(plane + line * kBytes + j, &bits, 8);
    }
  }
}

template <Layout kLayout, int kBits>
void read_codes(const uint8_t* slice, uint8_t* codes) {
  using In = Cut<kLayout>;
  constexpr int kInverted = kLayout == Layout::kRows8 ? 1 << (kBits - 1) : 0, kLow = kBits == 3 ? 2 : kBits;
  uint8_t vectors[In::kCodes];
  std::memset(vectors, kInverted, sizeof vectors);
  read_plane<kLayout, kLow, 0>(slice, vectors);
  if constexpr (kBits == 3) read_plane<kLayout, 1, 2>(slice + In::kCodes * 2 / 8, vectors);
  for (int64_t at = 0; at < In::kCodes; at += In::kRun) std::memcpy(codes + In::among_codes(at), vectors + at, In::kRun);
}

template <Layout kLayout, int kBits>
void write_codes(const uint8_t* codes, uint8_t* slice) {
  using In = Cut<kLayout>;
  constexpr int kInverted = kLayout == Layout::kRows8 ? 1 << (kBits - 1) : 0, kLow = kBits == 3 ? 2 : kBits;
  uint8_t vectors[In::kCodes];
  for (int64_t at = 0; at < In::kCodes; at += In::kRun) std::memcpy(vectors + at, codes + In::among_codes(at), In::kRun);
  for (int64_t i = 0; i < In::kCodes; i++) vectors[i] ^= kInverted;
  write_plane<kLayout, kLow, 0>(vectors, slice);
  if constexpr (kBits == 3) write_plane<kLayout, 1, 2>(vectors, slice + In::kCodes * 2 / 8);
}

// Calls use(a function of the layout and the bits): those of `matrix`, as constants.
template <typename Use>
void with_constants(const Matrix& matrix, const Use& use) {
  const auto with_bits = [&](auto layout) {
    constexpr Layout kLayout = decltype(layout)::value;
    switch (matrix.bits) {
      case 2: return use(std::integral_constant<Layout, kLayout>{}, std::integral_constant<int, 2>{});
      case 3: return use(std::integral_constant<Layout, kLayout>{}, std::integral_constant<int, 3>{});
      case 4: return use(std::integral_constant<Layout, kLayout>{}, std::integral_constant<int, 4>{});
      default: return use(std::integral_constant<Layout, kLayout>{}, std::integral_constant<int, 8>{});
    }
  };
  if (matrix.layout == Layout::kRows16) return with_bits(std::integral_constant<Layout, Layout::kRows16>{});
  return with_bits(std::integral_constant<Layout, Layout::kRows8>{});
}

// codes [block_rows][kSlice].
void write_slice(const Matrix& matrix, const uint8_t* codes, uint8_t* slice) {
  with_constants(matrix, [&](auto layout, auto bits) { write_codes<layout.value, bits.value>(codes, slice); });
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
  if (from.group == 0) std::memcpy(target_tail + target_row * 4, source_tail + source_row * 4, 4);
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
  // Products of 8 bits have no place for a step.
  return sized && coded && grouped && laid && valued && (matrix.bits != 8 || matrix.step == 1);
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
  const uint8_t* from = slice_at(matrix, block, slice);
  with_constants(matrix, [&](auto layout, auto bits) { read_codes<layout.value, bits.value>(from, codes); });
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
