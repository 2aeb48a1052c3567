// A bundle's description of its images, and what follows from it for a prompt: its text, and the tiles of its images.
// Nothing here runs the artifact, so that it is compiled without ExecuTorch as well (edgec/images.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "preparation.h"
#include "vision_facts.h"
#include "tiles.h"

namespace edgec::runner {

// Throws Failure as vision.h says, and std::invalid_argument where a call makes no sense.
class DescribedImages {
 public:
  // Read manifest.json and images/preparation.json in a bundle's folder, which are not trusted.
  explicit DescribedImages(const std::string& bundle);
  // The maker of tiles reads the description next to it.
  DescribedImages(const DescribedImages&) = delete;
  DescribedImages& operator=(const DescribedImages&) = delete;

  const VisionFacts& facts() const { return facts_; }
  const ImageTexts& texts() const { return preparation_.texts; }
  const TileMaker& maker() const { return maker_; }

  // What becomes of an image, one of `images`, once it is certain that its prompt fits into the context.
  TileGrid grid(PixelSize size, int64_t images) const;
  // The text that takes the place of such an image.
  std::string text(PixelSize size, int64_t images) const;
  // A prompt's whole text; `sizes`: [images][2].
  std::string prompt(std::string_view own, const int64_t* sizes, int64_t images) const;
  // An image's tiles, of which there are `count` values.
  void tiles(const PixelView& image, int64_t images, float* out, size_t count) const;

 private:
  VisionFacts facts_;
  Preparation preparation_;
  TileMaker maker_;
};

}  // namespace edgec::runner
