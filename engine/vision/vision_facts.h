// The facts in a bundle's manifest that are needed to see: what its image encoder reads, and how its rows lie in a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pixels.h"

namespace edgec::runner {

// What sees tokens after itself, as bundle/span_end.py: nothing, the rows of an image, all of a prompt with images.
enum class Ahead { kNone, kImage, kPrompt };

// Rows of a tile, high and wide, where tokens have positions of three parts.
struct RowGrid {
  int64_t high = 1;
  int64_t wide = 1;
};

struct VisionFacts {
  int64_t context = 0;  // tokens that the decoder holds
  int64_t height = 0;   // of a tile, pixels
  int64_t width = 0;
  int64_t rows = 0;  // of a tile
  int64_t image_token = 0;
  Ahead ahead = Ahead::kNone;
  std::optional<RowGrid> grid;
};

// Read a manifest's text, which is not trusted. Throws Failure (EDGEC_VISION_ABSENT) where the model has no vision,
// std::runtime_error where what is said of them makes no sense.
VisionFacts read_vision_facts(std::string_view manifest);

}  // namespace edgec::runner
