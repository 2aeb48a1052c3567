#include "edgec/vision.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "described_images.h"
#include "encoded_images.h"
#include "core/guarded.h"

using edgec::engine::guarded;
using edgec::engine::require;
using edgec::runner::DescribedImages;
using edgec::runner::EncodedImages;
using edgec::runner::VisionFacts;
using edgec::runner::TileGrid;
using edgec::runner::checked_view;

struct EdgecVision {
  EdgecVision(const std::string& bundle, const std::string& artifact, const std::string& packed)
      : described(bundle), images(described.facts(), described.maker(), artifact, packed) {}

  DescribedImages described;
  EncodedImages images;
  std::string text;  // the last one that was given
};

namespace {

void give(EdgecVision& vision, std::string made, const char** text, size_t* bytes) {
  vision.text = std::move(made);
  *text = vision.text.c_str();
  *bytes = vision.text.size();
}

}  // namespace

EdgecVision* edgec_vision_open(
    const char* bundle, const char* artifact, const char* packed_path, int32_t* status, char* error, size_t capacity) {
  std::unique_ptr<EdgecVision> made;
  const auto open = [&] {
    require(bundle, "the bundle's path");
    require(artifact, "the artifact's path");
    made = std::make_unique<EdgecVision>(bundle, artifact, packed_path == nullptr ? "" : packed_path);
  };
  const int outcome = guarded(open, error, capacity);
  if (status != nullptr) *status = outcome;
  return outcome == EDGEC_OK ? made.release() : nullptr;
}

void edgec_vision_close(EdgecVision* vision) {
  delete vision;
}

void edgec_vision_info(const EdgecVision* vision, EdgecVisionInfo* info) {
  if (info == nullptr) return;
  *info = {};
  if (vision == nullptr) return;
  const VisionFacts& facts = vision->described.facts();
  const auto& texts = vision->described.texts();
  const int32_t special = texts.special_tokens ? EDGEC_SPECIAL_TOKENS_AS_TEXT : EDGEC_SPECIAL_TOKENS_NEVER;
  *info = {edgec::runner::kColours, facts.height, facts.width, facts.rows, facts.image_token, facts.context,
           texts.placeholder.c_str(), special, facts.ahead == edgec::runner::Ahead::kPrompt};
}

int edgec_vision_tiles(
    EdgecVision* vision, int64_t width, int64_t height, int64_t images, EdgecImageTiles* tiles, char* error,
    size_t capacity) {
  const auto ask = [&] {
    require(vision, "the vision");
    require(tiles, "the tiles");
    const TileGrid grid = vision->described.grid({width, height}, images);
    *tiles = {grid.columns, grid.lines, grid.tiles(), grid.tiles() * vision->described.facts().rows};
  };
  return guarded(ask, error, capacity);
}

int edgec_vision_text(
    EdgecVision* vision, int64_t width, int64_t height, int64_t images, const char** text, size_t* bytes, char* error,
    size_t capacity) {
  const auto write = [&] {
    require(vision, "the vision");
    require(text, "the text");
    require(bytes, "the text's length");
    give(*vision, vision->described.text({width, height}, images), text, bytes);
  };
  return guarded(write, error, capacity);
}

int edgec_vision_prompt(
    EdgecVision* vision, const char* text, size_t bytes, const int64_t* sizes, int64_t images, const char** prompt,
    size_t* prompt_bytes, char* error, size_t capacity) {
  const auto write = [&] {
    require(vision, "the vision");
    require(bytes == 0 ? vision : static_cast<const void*>(text), "the text");
    require(images == 0 ? vision : static_cast<const void*>(sizes), "the sizes");
    require(prompt, "the prompt");
    require(prompt_bytes, "the prompt's length");
    give(*vision, vision->described.prompt({text, bytes}, sizes, images), prompt, prompt_bytes);
  };
  return guarded(write, error, capacity);
}

int edgec_vision_prepare(
    EdgecVision* vision, const EdgecImage* image, int64_t images, float* tiles, size_t count, char* error,
    size_t capacity) {
  const auto prepare = [&] {
    require(vision, "the vision");
    require(image, "the image");
    require(tiles, "the tiles");
    vision->described.tiles(checked_view(*image), images, tiles, count);
  };
  return guarded(prepare, error, capacity);
}

int edgec_vision_begin(EdgecVision* vision, int64_t images, char* error, size_t capacity) {
  const auto begin = [&] {
    require(vision, "the vision");
    vision->images.begin(images);
  };
  return guarded(begin, error, capacity);
}

int edgec_vision_add(EdgecVision* vision, const EdgecImage* image, char* error, size_t capacity) {
  const auto add = [&] {
    require(vision, "the vision");
    require(image, "the image");
    vision->images.add(checked_view(*image));
  };
  return guarded(add, error, capacity);
}

int edgec_vision_step(EdgecVision* vision, int64_t* left, char* error, size_t capacity) {
  const auto step = [&] {
    require(vision, "the vision");
    require(left, "the number of tiles left");
    *left = vision->images.step();
  };
  const int status = guarded(step, error, capacity);
  if (status != EDGEC_OK && vision != nullptr) vision->images.begin(0);
  return status;
}

int edgec_vision_encode(EdgecVision* vision, const float* tile, size_t count, char* error, size_t capacity) {
  const auto encode = [&] {
    require(vision, "the vision");
    require(tile, "the tile");
    vision->images.encode(tile, count);
  };
  return guarded(encode, error, capacity);
}

int edgec_vision_place(
    EdgecVision* vision, EdgecSession* session, const int64_t* tokens, size_t count, int64_t* kept, char* error,
    size_t capacity) {
  const auto place = [&] {
    require(vision, "the vision");
    require(session, "the session");
    require(tokens, "the tokens");
    require(kept, "the number of kept tokens");
    if (count == 0 || count > static_cast<size_t>(vision->described.facts().context)) {
      throw std::invalid_argument("the prompt has no tokens, or more than the context holds");
    }
    *kept = vision->images.place(session, tokens, count);
  };
  return guarded(place, error, capacity);
}

void edgec_vision_times(const EdgecVision* vision, EdgecVisionTimes* times) {
  if (times == nullptr) return;
  *times = vision == nullptr ? EdgecVisionTimes{} : EdgecVisionTimes{vision->images.prepare_ms(), vision->images.encode_ms()};
}
