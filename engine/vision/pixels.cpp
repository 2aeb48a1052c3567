#include "pixels.h"

#include <algorithm>

namespace edgec::runner {

void check_size(int64_t width, int64_t height) {
  const std::string shape = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width < 1 || height < 1) throw engine::Failure(EDGEC_IMAGE_SIZE, "the image has " + shape);
  if (width > kMostPixels / height) {
    throw engine::Failure(
        EDGEC_IMAGE_SIZE, "the image has " + shape + ", and the most are " + std::to_string(kMostPixels));
  }
  if (std::max(width, height) > kMostRatio * std::min(width, height)) {
    throw engine::Failure(
        EDGEC_IMAGE_SIZE,
        "the image has " + shape + ": one side is over " + std::to_string(kMostRatio) + " times the other");
  }
}

PixelView checked_view(const EdgecImage& image) {
  check_size(image.width, image.height);
  if (image.pixels == nullptr) throw std::invalid_argument("the pixels are null");
  if (image.pixel_bytes != 3 && image.pixel_bytes != 4) {
    throw std::invalid_argument("a pixel has 3 or 4 bytes, not " + std::to_string(image.pixel_bytes));
  }
  const int64_t least = image.width * image.pixel_bytes;
  const int64_t line = image.line_bytes == 0 ? least : image.line_bytes;
  if (line < least || line > INT64_MAX / image.height) {
    throw std::invalid_argument("the lines of the image are shorter than its width");
  }
  return {image.pixels, {image.width, image.height}, line, image.pixel_bytes};
}

}  // namespace edgec::runner
