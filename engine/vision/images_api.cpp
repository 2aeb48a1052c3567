#include "edgec/images.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "described_images.h"
#include "positions.h"
#include "core/guarded.h"

using edgec::engine::guarded;
using edgec::engine::require;
using edgec::runner::DescribedImages;
using edgec::runner::PromptPlaces;
using edgec::runner::TileGrid;
using edgec::runner::checked_view;

struct EdgecImages {
  explicit EdgecImages(const std::string& bundle) : described(bundle) {}

  DescribedImages described;
  std::string text;     // the last one that was given
  PromptPlaces places;  // likewise
};

namespace {

const int64_t* array_of(const std::vector<int64_t>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

EdgecImages* edgec_images_open(const char* bundle, int32_t* status, char* error, size_t capacity) {
  std::unique_ptr<EdgecImages> made;
  const auto open = [&] {
    require(bundle, "the bundle's path");
    made = std::make_unique<EdgecImages>(bundle);
  };
  const int outcome = guarded(open, error, capacity);
  if (status != nullptr) *status = outcome;
  return outcome == EDGEC_OK ? made.release() : nullptr;
}

void edgec_images_close(EdgecImages* images) {
  delete images;
}

int edgec_images_prompt(
    EdgecImages* images, const char* text, size_t bytes, const int64_t* sizes, int64_t count, const char** prompt,
    size_t* prompt_bytes, char* error, size_t capacity) {
  const auto write = [&] {
    require(images, "the images");
    require(bytes == 0 ? images : static_cast<const void*>(text), "the text");
    require(count == 0 ? images : static_cast<const void*>(sizes), "the sizes");
    require(prompt, "the prompt");
    require(prompt_bytes, "the prompt's length");
    images->text = images->described.prompt({text, bytes}, sizes, count);
    *prompt = images->text.c_str();
    *prompt_bytes = images->text.size();
  };
  return guarded(write, error, capacity);
}

int edgec_images_tiles(
    EdgecImages* images, int64_t width, int64_t height, int64_t of, EdgecImageTiles* tiles, char* error,
    size_t capacity) {
  const auto ask = [&] {
    require(images, "the images");
    require(tiles, "the tiles");
    const TileGrid grid = images->described.grid({width, height}, of);
    *tiles = {grid.columns, grid.lines, grid.tiles(), grid.tiles() * images->described.facts().rows};
  };
  return guarded(ask, error, capacity);
}

int edgec_images_prepare(
    EdgecImages* images, const EdgecImage* image, int64_t of, float* tiles, size_t count, char* error,
    size_t capacity) {
  const auto prepare = [&] {
    require(images, "the images");
    require(image, "the image");
    require(tiles, "the tiles");
    images->described.tiles(checked_view(*image), of, tiles, count);
  };
  return guarded(prepare, error, capacity);
}

int edgec_images_places(
    EdgecImages* images, const int64_t* tokens, size_t count, int64_t tiles, EdgecImagePlaces* places, char* error,
    size_t capacity) {
  const auto place = [&] {
    require(images, "the images");
    require(tokens, "the tokens");
    require(places, "the places");
    const auto& facts = images->described.facts();
    if (count == 0 || count > static_cast<size_t>(facts.context)) {
      throw std::invalid_argument("the prompt has no tokens, or more than the context holds");
    }
    if (tiles < 0 || tiles > facts.context) throw std::invalid_argument("the number of tiles is out of range");
    PromptPlaces found = edgec::runner::prompt_places(facts, tokens, count);
    edgec::runner::check_places(facts, found, tiles);
    images->places = std::move(found);
    const PromptPlaces& own = images->places;
    *places = {array_of(own.rows), static_cast<int64_t>(own.rows.size()), array_of(own.span_end), array_of(own.mrope),
               own.mrope_next, own.kept};
  };
  return guarded(place, error, capacity);
}
