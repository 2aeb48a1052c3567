// The images of a prompt on their way: tiles that wait for the image encoder, rows that it made.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/method.h"
#include "positions.h"
#include "tiles.h"

namespace edgec::runner {

// Throws std::runtime_error where the artifact fails, std::invalid_argument where calls come in a wrong order, and
// Failure as vision.h says.
class EncodedImages {
 public:
  // `packed`: the file of the encoder's packed weights, or empty.
  EncodedImages(const VisionFacts& facts, const TileMaker& maker, std::string artifact, std::string packed);

  // A prompt of so many images; those of the last one are forgotten.
  void begin(int64_t images);
  // Cut the next image into tiles.
  void add(const PixelView& image);
  // Let the encoder read a tile; returns how many wait after it.
  int64_t step();
  // Let it read a tile's values as they are, as an image of its own.
  void encode(const float* tile, size_t count);
  // Give the rows to a session, in the places of the image tokens; returns how many tokens come before all that they
  // change.
  int64_t place(EdgecSession* session, const int64_t* tokens, size_t count) const;

  double prepare_ms() const { return prepare_ms_; }
  double encode_ms() const { return encode_ms_; }

 private:
  void read(const float* tile);

  const VisionFacts& facts_;
  const TileMaker& maker_;
  std::string artifact_;
  std::string packed_;
  std::unique_ptr<Method> encoder_;  // null before the first tile
  int64_t images_ = 0;           // of the prompt
  int64_t added_ = 0;
  std::deque<std::vector<uint8_t>> waiting_;  // one tile each
  std::vector<float> rows_;                   // [rows of the tiles that were read][width_]
  int64_t width_ = 0;                         // of a row; 0 before the first one
  int64_t read_ = 0;                          // tiles that were read
  double prepare_ms_ = 0;
  double encode_ms_ = 0;
};

}  // namespace edgec::runner
