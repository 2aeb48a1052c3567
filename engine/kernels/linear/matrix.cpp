#include "matrix.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "decode.h"

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

// The bits of a code's lower plane: all, or as many as are left of 3, 5 and 6 without their upper plane.
constexpr int lower_bits(int bits) {
  return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits;
}

Planes planes_of(const Matrix& matrix) {
  const int lower = lower_bits(matrix.bits), upper = matrix.bits - lower;
  if (upper == 0) return {{{lower, 0, 0}, {0, 0, 0}}, 1};
  return {{{lower, 0, 0}, {upper, lower, matrix.block_rows() * kSlice * lower / 8}}, 2};
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
  const int64_t run = slice / matrix.run_slices();
  return block + run * matrix.run_bytes() + slice % matrix.run_slices() * matrix.slice_bytes();
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
  constexpr int kInverted = kLayout == Layout::kRows8 ? 1 << (kBits - 1) : 0, kLow = lower_bits(kBits);
  uint8_t vectors[In::kCodes];
  std::memset(vectors, kInverted, sizeof vectors);
  read_plane<kLayout, kLow, 0>(slice, vectors);
  if constexpr (kLow != kBits) read_plane<kLayout, kBits - kLow, kLow>(slice + In::kCodes * kLow / 8, vectors);
  for (int64_t at = 0; at < In::kCodes; at += In::kRun) std::memcpy(codes + In::among_codes(at), vectors + at, In::kRun);
}

template <Layout kLayout, int kBits>
void write_codes(const uint8_t* codes, uint8_t* slice) {
  using In = Cut<kLayout>;
  constexpr int kInverted = kLayout == Layout::kRows8 ? 1 << (kBits - 1) : 0, kLow = lower_bits(kBits);
  uint8_t vectors[In::kCodes];
  for (int64_t at = 0; at < In::kCodes; at += In::kRun) std::memcpy(vectors + at, codes + In::among_codes(at), In::kRun);
  for (int64_t i = 0; i < In::kCodes; i++) vectors[i] ^= kInverted;
  write_plane<kLayout, kLow, 0>(vectors, slice);
  if constexpr (kLow != kBits) write_plane<kLayout, kBits - kLow, kLow>(vectors, slice + In::kCodes * kLow / 8);
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
      case 5: return use(std::integral_constant<Layout, kLayout>{}, std::integral_constant<int, 5>{});
      case 6: return use(std::integral_constant<Layout, kLayout>{}, std::integral_constant<int, 6>{});
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

// An array beside the codes of a block, `entries` of so many bytes for each row: entry 0 of all rows, then entry 1 ...
struct Beside {
  int64_t entries;
  int64_t bytes;
};

// The arrays of a block's tail, one after the other.
struct Tail {
  Beside arrays[3];
  int count;
};

Tail tail_of(const Matrix& matrix) {
  switch (matrix.scales) {
    case Scales::kRow: return {{{1, 4}}, 1};
    case Scales::kFloat16: return {{{matrix.groups(), 2}}, 1};
    case Scales::kFloat16Minimum: return {{{2 * matrix.groups(), 2}}, 1};
    case Scales::kFloat16Zero: return {{{matrix.groups(), 2}, {matrix.groups(), 1}}, 2};
    case Scales::kSixBits: return {{{matrix.slices(), 1}, {(matrix.slices() + 1) / 2, 1}, {2 * matrix.supers(), 2}}, 3};
    case Scales::kEightBits: return {{{2 * matrix.slices(), 1}, {matrix.supers(), 2}}, 2};
    default: return {{}, 0};
  }
}

// Copies a row's entries of an array from a block to another one, perhaps of other rows.
void relay_entries(const Beside& array, const uint8_t* from, int64_t from_rows, int64_t from_row, uint8_t* to,
                   int64_t to_rows, int64_t to_row) {
  for (int64_t i = 0; i < array.entries; i++) {
    std::memcpy(to + (i * to_rows + to_row) * array.bytes, from + (i * from_rows + from_row) * array.bytes,
                static_cast<size_t>(array.bytes));
  }
}

// Copies the row's entries of every array that stands beside the codes.
void relay_row(const Matrix& from, int64_t row, const Matrix& to, uint8_t* data) {
  const int64_t from_rows = from.block_rows(), to_rows = to.block_rows();
  const uint8_t* source = from.block(row / from_rows);
  uint8_t* target = data + row / to_rows * to.block_bytes();
  for (int64_t run = 0; from.scales == Scales::kBfloat16 && run < from.runs(); run++) {
    relay_entries({1, 2}, source + (run + 1) * from.run_bytes() - from_rows * 2, from_rows, row % from_rows,
                  target + (run + 1) * to.run_bytes() - to_rows * 2, to_rows, row % to_rows);
  }
  source = from.tail(source);
  target += to.runs() * to.run_bytes();
  const Tail tail = tail_of(from);
  for (int i = 0; i < tail.count; i++) {
    const Beside& array = tail.arrays[i];
    relay_entries(array, source, from_rows, row % from_rows, target, to_rows, row % to_rows);
    source += array.entries * array.bytes * from_rows;
    target += array.entries * array.bytes * to_rows;
  }
}

bool is_grouped(const Matrix& matrix) {
  if (matrix.scales == Scales::kRow) return matrix.group == 0;
  const int64_t group = matrix.scales == Scales::kEightBits ? 2 * matrix.group : matrix.group;
  const bool slices = group > 0 && group % kSlice == 0 && group <= 1024 && matrix.width % group == 0;
  const bool packed = matrix.scales == Scales::kSixBits || matrix.scales == Scales::kEightBits;
  return slices && (!packed || group == kSlice);
}

bool is_valued(const Matrix& matrix) {
  const bool stepped = matrix.step == 1 || (matrix.step == 2 && matrix.bits == 2 && !matrix.decoded());
  const bool centred = matrix.offset == matrix.step << (matrix.bits - 1);
  // Halves of slices have no start, and are not summed for fewer bits than have to be.
  return stepped && matrix.offset >= 0 && matrix.offset <= 128 && (!matrix.has_halves() || (centred && matrix.bits == 6)) &&
         (matrix.decoded() || (matrix.bits != 5 && matrix.bits != 6));
}

}  // namespace

Scales scales_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"bfloat16", "row",        "float16",     "float16_minimum",
                                         "six_bits", "eight_bits", "float16_zero"};
  int index = 0;
  while (index < 7 && kNames[index] != name) index++;
  return static_cast<Scales>(index);
}

bool is_matrix(const Matrix& matrix) {
  // Products of such sizes stay within 64 bits.
  constexpr int64_t kMost = int64_t{1} << 26;
  const bool sized = matrix.rows > 0 && matrix.rows <= kMost && matrix.width > 0 && matrix.width <= kMost / 64;
  const bool coded = (matrix.bits >= 2 && matrix.bits <= 6) || matrix.bits == 8;
  const bool laid = matrix.layout == Layout::kRows16 || matrix.layout == Layout::kRows8;
  const bool scaled = matrix.scales >= Scales::kBfloat16 && matrix.scales <= Scales::kFloat16Zero;
  return sized && coded && laid && scaled && is_grouped(matrix) && is_valued(matrix);
}

float* decoded_memory(int64_t floats) {
  static thread_local std::vector<float> memory;
  if (static_cast<int64_t>(memory.size()) < floats) memory.resize(static_cast<size_t>(floats));
  return memory.data();
}

Affine affine_at(const Matrix& matrix, const uint8_t* block, int64_t row, int64_t half) {
  const int64_t rows = matrix.block_rows(), slice = half / 2;
  const uint8_t* tail = matrix.tail(block);
  const auto float16 = [&](const uint8_t* from, int64_t entry) { return from_float16(from + (entry * rows + row) * 2); };
  switch (matrix.scales) {
    case Scales::kRow: {
      float scale;
      std::memcpy(&scale, tail + row * 4, 4);
      return {scale, 0.0f};
    }
    case Scales::kBfloat16: {
      const uint8_t* end = block + (slice / matrix.run_slices() + 1) * matrix.run_bytes();
      uint16_t high;
      std::memcpy(&high, end - (rows - row) * 2, 2);
      const uint32_t bits = static_cast<uint32_t>(high) << 16;
      float scale;
      std::memcpy(&scale, &bits, 4);
      return {scale, 0.0f};
    }
    case Scales::kFloat16: return {float16(tail, slice * kSlice / matrix.group), 0.0f};
    case Scales::kFloat16Minimum: {
      const int64_t group = slice * kSlice / matrix.group;
      return {float16(tail, 2 * group), float16(tail, 2 * group + 1)};
    }
    case Scales::kFloat16Zero: {
      const int64_t group = slice * kSlice / matrix.group;
      const float scale = float16(tail, group);
      return {scale, -scale * static_cast<float>(tail[(2 * matrix.groups() + group) * rows + row])};
    }
    case Scales::kSixBits: {
      const uint8_t* upper = tail + matrix.slices() * rows;
      const uint8_t* supers = upper + (matrix.slices() + 1) / 2 * rows;
      const int low = tail[slice * rows + row], high = upper[slice / 2 * rows + row] >> slice % 2 * 4;
      const int64_t super = slice / kSuperSlices;
      return {float16(supers, 2 * super) * static_cast<float>((low & 15) | (high & 3) << 4),
              float16(supers, 2 * super + 1) * static_cast<float>(low >> 4 | (high & 12) << 2)};
    }
    default: {
      const uint8_t* supers = tail + 2 * matrix.slices() * rows;
      return {float16(supers, slice / kSuperSlices) * static_cast<float>(static_cast<int8_t>(tail[half * rows + row])),
              0.0f};
    }
  }
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
    const Affine halves[] = {affine_at(matrix, block, inside, 2 * slice), affine_at(matrix, block, inside, 2 * slice + 1)};
    for (int64_t i = 0; i < kSlice && slice * kSlice + i < matrix.width; i++) {
      const int value = matrix.step * code_at(matrix, planes, from, inside, i) - matrix.offset;
      const Affine& half = halves[i / (kSlice / 2)];
      values[slice * kSlice + i] = static_cast<float>(value) * half.scale + half.minimum;
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
      const int64_t run = slice / target.run_slices();
      uint8_t* at = written + run * target.run_bytes() + slice % target.run_slices() * target.slice_bytes();
      write_slice(target, codes, at);
    }
  }
  for (int64_t row = 0; row < matrix.rows; row++) relay_row(matrix, row, target, to);
}

}  // namespace edgec::linear
