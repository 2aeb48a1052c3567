// Pixels from a file, which is not trusted: its header is checked before any memory is taken for pixels.
#pragma once

#include <string>

#include "vision/pixels.h"

namespace edgec::runner {

// A binary PPM (P6) of 8 bits for each colour. Throws Failure (EDGEC_IMAGE_SIZE) where it is too large or too long,
// std::runtime_error where it is another file, or cut off.
Picture read_image(const std::string& path);

}  // namespace edgec::runner
