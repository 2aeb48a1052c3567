#include "vision_facts.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/json_facts.h"
#include "core/number_text.h"

namespace edgec::runner {
namespace {

using engine::JsonText;
using engine::natural_into;
using engine::read_some_fields;

constexpr int64_t kMostEdge = 1 << 13, kMostRows = 1 << 20;

RowGrid read_grid(JsonText& json) {
  std::vector<int64_t> sizes;
  json.array([&] {
    if (sizes.size() == 2) json.refuse("a grid of more than two sizes");
    sizes.push_back(json.natural(kMostRows));
  });
  if (sizes.size() != 2) json.refuse("a grid of fewer than two sizes");
  return {sizes[0], sizes[1]};
}

VisionFacts read_part(JsonText& json) {
  VisionFacts facts;
  int64_t channels = 0;
  const auto limits = [&] { read_some_fields(json, 1, {{"context", natural_into(json, facts.context, kMostTokens)}}); };
  read_some_fields(
      json, 7,
      {{"limits", limits},
       {"height", natural_into(json, facts.height, kMostEdge, 1)},
       {"width", natural_into(json, facts.width, kMostEdge, 1)},
       {"rows", natural_into(json, facts.rows, kMostRows, 1)},
       {"image_token", natural_into(json, facts.image_token, kMostTokens)},
       {"channels", natural_into(json, channels, kMostEdge, 1)},
       {"ahead", [&] { facts.ahead = engine::read_choice<Ahead>(json, {"none", "image", "prompt"}); }},
       {"grid", [&] { facts.grid = read_grid(json); }}});
  if (channels != kColours || facts.rows > facts.context || facts.height * facts.width > kMostMade) {
    throw std::runtime_error("the manifest's tiles are beyond what the runner makes");
  }
  return facts;
}

void check_grid(const RowGrid& grid, int64_t rows) {
  if (grid.high < 1 || grid.wide < 1 || grid.high * grid.wide != rows) {
    throw std::runtime_error("the manifest's grid of rows is not one of so many rows");
  }
}

}  // namespace

VisionFacts read_vision_facts(std::string_view manifest) {
  JsonText json = engine::manifest_json(manifest);
  std::optional<VisionFacts> facts;
  read_some_fields(json, 0, {{"vision_language", [&] { facts = read_part(json); }}});
  json.end();
  if (!facts) throw engine::Failure(EDGEC_VISION_ABSENT, "the bundle's model has no vision");
  if (facts->grid) check_grid(*facts->grid, facts->rows);
  return *facts;
}

}  // namespace edgec::runner
