// Images of another size, as Pillow 13 makes them: the same pixels, in the same whole numbers. Pillow 12 goes along lines
// first in every case, and a byte may differ by 1.
#pragma once

#include "pixels.h"

namespace edgec::runner {

// How pixels are mixed, in the order of Pillow's numbers.
enum class Resampling { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };

// An image of `size`, which has a pixel at least. Beside the result and a table of weights it holds a line, or as many
// lines of the result's width as a pixel of it is mixed from.
Picture resample(const PixelView& image, PixelSize size, Resampling how);

}  // namespace edgec::runner
