#include "sight/sight_api.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "canonical_text.h"
#include "sight/seen_images.h"
#include "sight/texts.h"
#include "stated.h"

using edgec::runner::ImageRefusal;
using edgec::runner::PixelSize;
using edgec::runner::PixelView;
using edgec::runner::Preparation;
using edgec::runner::SeenImages;
using edgec::runner::SightFacts;
using edgec::runner::TileGrid;
using edgec::runner::TileMaker;
using edgec::runner::checked_view;
using edgec::runner::require;
using edgec::runner::stated;

namespace {

// The text of a bundle's description of its images. Throws ImageRefusal where it has none.
std::string preparation_text(const std::string& bundle) {
  const std::string path = bundle + "/images/preparation.json";
  if (!std::ifstream(path, std::ios::binary)) {
    throw ImageRefusal(
        EDGEC_SIGHT_UNDESCRIBED,
        "the bundle has no images/preparation.json: it was made by an older edgec; export the model again");
  }
  return edgec::runner::text_of(path);
}

}  // namespace

struct EdgecSight {
  EdgecSight(const std::string& bundle, const std::string& artifact, const std::string& packed)
      : facts(edgec::runner::read_sight_facts(edgec::runner::text_of(bundle + "/manifest.json"))),
        preparation(edgec::runner::read_preparation(preparation_text(bundle))),
        maker(preparation, facts),
        images(facts, maker, artifact, packed) {}

  SightFacts facts;
  Preparation preparation;
  TileMaker maker;
  SeenImages images;
  std::string text;  // the last one that was given
};

namespace {

// What becomes of an image, once it is certain that its prompt fits into the context.
TileGrid fitting_grid(const EdgecSight& sight, PixelSize size, int64_t images) {
  if (images < 1) throw std::invalid_argument("a prompt with an image has one at least");
  const TileGrid grid = sight.maker.grid(size, images);
  if (grid.tiles() > (sight.facts.context - 1) / sight.facts.rows) {
    throw ImageRefusal(
        EDGEC_IMAGES_TOO_MANY, "the image has " + std::to_string(grid.tiles()) + " tiles of " +
                                   std::to_string(sight.facts.rows) + " tokens, and the context holds " +
                                   std::to_string(sight.facts.context) + " tokens");
  }
  return grid;
}

std::string text_of_image(const EdgecSight& sight, PixelSize size, int64_t images) {
  return edgec::runner::image_text(sight.preparation.texts, fitting_grid(sight, size, images), sight.facts.rows);
}

void give(EdgecSight& sight, std::string made, const char** text, size_t* bytes) {
  sight.text = std::move(made);
  *text = sight.text.c_str();
  *bytes = sight.text.size();
}

}  // namespace

EdgecSight* edgec_sight_open(
    const char* bundle, const char* artifact, const char* packed_path, int32_t* status, char* error, size_t capacity) {
  std::unique_ptr<EdgecSight> made;
  const auto open = [&] {
    require(bundle, "the bundle's path");
    require(artifact, "the artifact's path");
    made = std::make_unique<EdgecSight>(bundle, artifact, packed_path == nullptr ? "" : packed_path);
  };
  const int outcome = stated<ImageRefusal>(open, error, capacity);
  if (status != nullptr) *status = outcome;
  return outcome == EDGEC_OK ? made.release() : nullptr;
}

void edgec_sight_close(EdgecSight* sight) {
  delete sight;
}

void edgec_sight_info(const EdgecSight* sight, EdgecSightInfo* info) {
  if (info == nullptr) return;
  *info = {};
  if (sight == nullptr) return;
  const SightFacts& facts = sight->facts;
  const auto& texts = sight->preparation.texts;
  const int32_t special = texts.special_tokens ? EDGEC_SPECIAL_TOKENS_AS_TEXT : EDGEC_SPECIAL_TOKENS_NEVER;
  *info = {edgec::runner::kColours, facts.height, facts.width, facts.rows, facts.image_token, facts.context,
           texts.placeholder.c_str(), special, facts.ahead == edgec::runner::Ahead::kPrompt};
}

int edgec_sight_tiles(
    EdgecSight* sight, int64_t width, int64_t height, int64_t images, EdgecImageTiles* tiles, char* error,
    size_t capacity) {
  const auto ask = [&] {
    require(sight, "the sight");
    require(tiles, "the tiles");
    const TileGrid grid = fitting_grid(*sight, {width, height}, images);
    *tiles = {grid.columns, grid.lines, grid.tiles(), grid.tiles() * sight->facts.rows};
  };
  return stated<ImageRefusal>(ask, error, capacity);
}

int edgec_sight_text(
    EdgecSight* sight, int64_t width, int64_t height, int64_t images, const char** text, size_t* bytes, char* error,
    size_t capacity) {
  const auto write = [&] {
    require(sight, "the sight");
    require(text, "the text");
    require(bytes, "the text's length");
    give(*sight, text_of_image(*sight, {width, height}, images), text, bytes);
  };
  return stated<ImageRefusal>(write, error, capacity);
}

int edgec_sight_prompt(
    EdgecSight* sight, const char* text, size_t bytes, const int64_t* sizes, int64_t images, const char** prompt,
    size_t* prompt_bytes, char* error, size_t capacity) {
  const auto write = [&] {
    require(sight, "the sight");
    require(bytes == 0 ? sight : static_cast<const void*>(text), "the text");
    require(images == 0 ? sight : static_cast<const void*>(sizes), "the sizes");
    if (images < 0) throw std::invalid_argument("the number of images is negative");
    require(prompt, "the prompt");
    require(prompt_bytes, "the prompt's length");
    const int64_t most = (sight->facts.context - 1) / sight->facts.rows;
    if (images > most) {
      throw ImageRefusal(
          EDGEC_IMAGES_TOO_MANY, "the context holds no more than " + std::to_string(most) + " images");
    }
    std::vector<std::string> all;
    for (int64_t image = 0; image < images; ++image) {
      all.push_back(text_of_image(*sight, {sizes[2 * image], sizes[2 * image + 1]}, images));
    }
    const std::string_view own(text, bytes);
    give(*sight, edgec::runner::prompt_text(sight->preparation.texts, own, all), prompt, prompt_bytes);
  };
  return stated<ImageRefusal>(write, error, capacity);
}

int edgec_sight_prepare(
    EdgecSight* sight, const EdgecImage* image, int64_t images, float* tiles, size_t count, char* error,
    size_t capacity) {
  const auto prepare = [&] {
    require(sight, "the sight");
    require(image, "the image");
    require(tiles, "the tiles");
    const PixelView view = checked_view(*image);
    const TileGrid grid = fitting_grid(*sight, view.size, images);
    const size_t size = sight->maker.tile_bytes();
    if (count != static_cast<size_t>(grid.tiles()) * size) {
      throw std::invalid_argument("the tiles have another size than there is room for");
    }
    const std::vector<uint8_t> bytes = sight->maker.tiles(view, images);
    for (size_t at = 0; at < count; at += size) sight->maker.values(&bytes[at], tiles + at);
  };
  return stated<ImageRefusal>(prepare, error, capacity);
}

int edgec_sight_begin(EdgecSight* sight, int64_t images, char* error, size_t capacity) {
  const auto begin = [&] {
    require(sight, "the sight");
    sight->images.begin(images);
  };
  return stated<ImageRefusal>(begin, error, capacity);
}

int edgec_sight_add(EdgecSight* sight, const EdgecImage* image, char* error, size_t capacity) {
  const auto add = [&] {
    require(sight, "the sight");
    require(image, "the image");
    sight->images.add(checked_view(*image));
  };
  return stated<ImageRefusal>(add, error, capacity);
}

int edgec_sight_step(EdgecSight* sight, int64_t* left, char* error, size_t capacity) {
  const auto step = [&] {
    require(sight, "the sight");
    require(left, "the number of tiles left");
    *left = sight->images.step();
  };
  const int status = stated<ImageRefusal>(step, error, capacity);
  if (status != EDGEC_OK && sight != nullptr) sight->images.begin(0);
  return status;
}

int edgec_sight_see(EdgecSight* sight, const float* tile, size_t count, char* error, size_t capacity) {
  const auto see = [&] {
    require(sight, "the sight");
    require(tile, "the tile");
    sight->images.see(tile, count);
  };
  return stated<ImageRefusal>(see, error, capacity);
}

int edgec_sight_place(
    EdgecSight* sight, EdgecSession* session, const int64_t* tokens, size_t count, int64_t* kept, char* error,
    size_t capacity) {
  const auto place = [&] {
    require(sight, "the sight");
    require(session, "the session");
    require(tokens, "the tokens");
    require(kept, "the number of kept tokens");
    if (count == 0 || count > static_cast<size_t>(sight->facts.context)) {
      throw std::invalid_argument("the prompt has no tokens, or more than the context holds");
    }
    *kept = sight->images.place(session, tokens, count);
  };
  return stated<ImageRefusal>(place, error, capacity);
}

void edgec_sight_times(const EdgecSight* sight, EdgecSightTimes* times) {
  if (times == nullptr) return;
  *times = sight == nullptr ? EdgecSightTimes{} : EdgecSightTimes{sight->images.prepare_ms(), sight->images.see_ms()};
}
