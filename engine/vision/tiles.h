// An image cut and scaled into tiles, and their bytes as an image encoder reads them. As
// runtime_py/vision_language/prepared_images.py, which an export compares with transformers' processor.
#pragma once

#include <cstdint>
#include <vector>

#include "preparation.h"
#include "vision_facts.h"

namespace edgec::runner {

// What an image becomes: `lines` x `columns` parts, and all of it once more where `whole`.
struct TileGrid {
  int64_t columns = 1;
  int64_t lines = 1;
  bool whole = false;

  int64_t parts() const { return columns * lines; }
  int64_t tiles() const { return parts() + (whole ? 1 : 0); }
};

class TileMaker {
 public:
  TileMaker(const Preparation& preparation, const VisionFacts& facts);

  // What becomes of an image of this size, one of `images` in its prompt. Throws Failure (EDGEC_IMAGE_SIZE) where
  // it is not scaled to whole pixels, or to too many.
  TileGrid grid(PixelSize size, int64_t images) const;
  // Its tiles, [tiles][height][width][3].
  std::vector<uint8_t> tiles(const PixelView& image, int64_t images) const;
  // The values of a tile's bytes, float32 [3][height][width].
  void values(const uint8_t* tile, float* out) const;
  // Bytes of a tile, and as many values.
  size_t tile_bytes() const { return static_cast<size_t>(tile_.pixels() * kColours); }

 private:
  PixelSize canvas(PixelSize scaled) const;
  Picture whole(const PixelView& image) const;

  const Preparation& preparation_;
  PixelSize tile_;
  int64_t tiles_of_context_;
  std::vector<float> levels_;  // [3][256]
};

}  // namespace edgec::runner
