// Pixels of an image: those of a caller, and those that are made of them. Only one kind is known: red, green and blue, a
// byte each.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "edgec/vision.h"
#include "core/plain_failure.h"

namespace edgec::runner {

constexpr int64_t kColours = 3;
// Pixels of an image from outside, and how much longer one side may be, as bundle/image_preparation.py.
constexpr int64_t kMostPixels = 100'000'000;
constexpr int64_t kMostRatio = 100;
// Pixels that are made of one: 192 MiB.
constexpr int64_t kMostMade = int64_t{1} << 26;

struct PixelSize {
  int64_t width = 0;
  int64_t height = 0;

  int64_t pixels() const { return width * height; }
  bool operator==(const PixelSize& other) const { return width == other.width && height == other.height; }
};

// Pixels that lie elsewhere.
struct PixelView {
  const uint8_t* data = nullptr;
  PixelSize size;
  int64_t line_bytes = 0;
  int64_t pixel_bytes = kColours;

  const uint8_t* line(int64_t y) const { return data + y * line_bytes; }
};

struct Picture {
  explicit Picture(PixelSize of) : size(of), bytes(static_cast<size_t>(of.pixels() * kColours)) {}

  uint8_t* line(int64_t y) { return bytes.data() + y * size.width * kColours; }
  PixelView view() const { return {bytes.data(), size, size.width * kColours, kColours}; }

  PixelSize size;
  std::vector<uint8_t> bytes;  // [height][width][3]
};

// Throws Failure (EDGEC_IMAGE_SIZE) where an image from outside has no pixels, too many, or is too long.
void check_size(int64_t width, int64_t height);
// The pixels of a caller's image, checked; throws likewise, and std::invalid_argument where it contradicts itself.
PixelView checked_view(const EdgecImage& image);

}  // namespace edgec::runner
