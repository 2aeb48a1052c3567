#include "edgec/vision.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "described_images.h"
#include "seen_images.h"
#include "core/stated.h"

using edgec::runner::DescribedImages;
using edgec::runner::ImageRefusal;
using edgec::runner::SeenImages;
using edgec::runner::SightFacts;
using edgec::runner::TileGrid;
using edgec::runner::checked_view;
using edgec::runner::require;
using edgec::runner::stated;

struct EdgecSight {
  EdgecSight(const std::string& bundle, const std::string& artifact, const std::string& packed)
      : described(bundle), images(described.facts(), described.maker(), artifact, packed) {}

  DescribedImages described;
  SeenImages images;
  std::string text;  // the last one that was given
};

namespace {

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
  const SightFacts& facts = sight->described.facts();
  const auto& texts = sight->described.texts();
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
    const TileGrid grid = sight->described.grid({width, height}, images);
    *tiles = {grid.columns, grid.lines, grid.tiles(), grid.tiles() * sight->described.facts().rows};
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
    give(*sight, sight->described.text({width, height}, images), text, bytes);
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
    require(prompt, "the prompt");
    require(prompt_bytes, "the prompt's length");
    give(*sight, sight->described.prompt({text, bytes}, sizes, images), prompt, prompt_bytes);
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
    sight->described.tiles(checked_view(*image), images, tiles, count);
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
    if (count == 0 || count > static_cast<size_t>(sight->described.facts().context)) {
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
