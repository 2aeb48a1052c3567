// The images of --image: read, prepared and encoded once, then put into every prompt. Functions throw std::runtime_error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vision/pixels.h"
#include "edgec/vision.h"

namespace edgec::runner {

struct ShownImage {
  Picture pixels;
  EdgecImageTiles tiles;
};

class ShownImages {
 public:
  // Open a bundle's vision encoder and read the files, none or several; nothing is loaded yet. `packed`: the decoder's file of
  // packed weights, or empty.
  ShownImages(
      const std::string& bundle, const std::string& artifact, const std::string& packed,
      const std::vector<std::string>& files);

  // Let the image encoder read all tiles, and print the event "images"; nothing without images.
  void encode();
  // Put the rows into a prompt of a session. Throws where the prompt has other places for images.
  void place(EdgecSession* session, const std::vector<int64_t>& tokens) const;

 private:
  std::unique_ptr<EdgecVision, decltype(&edgec_vision_close)> vision_;
  std::vector<ShownImage> images_;
};

}  // namespace edgec::runner
