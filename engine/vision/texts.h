// What takes the place of images in a prompt's text: the image token's own text for each row, and marks around them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "preparation.h"
#include "tiles.h"

namespace edgec::runner {

// The text of an image that is cut so, of tiles with so many rows.
std::string image_text(const ImageTexts& texts, const TileGrid& grid, int64_t rows);

// A prompt with the texts of its images, one for each placeholder; a prompt without placeholders has them before it. One
// without both stays as it is.
// Throws Failure (EDGEC_IMAGES_MISPLACED) where there are more or fewer.
std::string prompt_text(const ImageTexts& texts, std::string_view prompt, const std::vector<std::string>& images);

}  // namespace edgec::runner
