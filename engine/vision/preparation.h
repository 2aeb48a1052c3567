// How images become tiles and what their places in a prompt look like, as a bundle's images/preparation.json says; see
// bundle/image_preparation.py, where each field is explained. The file is not trusted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "resample.h"

namespace edgec::runner {

struct ImageLevels {
  double scale = 1.0;
  std::array<double, 3> mean{};
  std::array<double, 3> std{};
};

enum class ImageFit { kStretch, kCover, kContain };

struct WholeImage {
  ImageFit fit = ImageFit::kStretch;
  Resampling resample = Resampling::kBicubic;
  int64_t edge = 0;                // of kCover
  std::array<uint8_t, 3> colour{};  // of kContain
};

struct LargeImages {
  int64_t step = 1;
  int64_t least = 1;
  double above = 0.0;
};

enum class GridRule { kLongestEdge, kProportions };

struct ImageGrid {
  GridRule rule = GridRule::kProportions;
  bool whole_last = false;
  int64_t edge = 0;  // of kLongestEdge
  int64_t fewest = 1;
  int64_t most = 1;
  bool shares_context = false;
  std::optional<LargeImages> large;  // nothing: all images are cut
};

struct GridTexts {
  std::string begin, tile, line, whole, end;
};

struct ImageTexts {
  std::string placeholder, row, before, after, after_images, end;
  bool special_tokens = true;  // the tokenizer adds its own
  std::optional<GridTexts> grid;
};

struct Preparation {
  ImageLevels levels;
  WholeImage whole;
  ImageTexts texts;
  std::optional<ImageGrid> grid;
};

// Throws Failure (EDGEC_VISION_UNDESCRIBED) where the text is something else, or says why nothing is described.
Preparation read_preparation(std::string_view text);

}  // namespace edgec::runner
