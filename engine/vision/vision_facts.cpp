#include "vision_facts.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/canonical_text.h"

namespace edgec::runner {
namespace {

constexpr size_t kDepth = 2;
constexpr int64_t kMostEdge = 1 << 13, kMostRows = 1 << 20;

int64_t count(std::string_view info, const std::string& name, int64_t most) {
  const int64_t value = number_of(info, name, kDepth);
  if (value < 1 || value > most) throw std::runtime_error("the manifest's \"" + name + "\" of images is out of range");
  return value;
}

Ahead ahead_of(std::string_view info) {
  const std::string found = value_of(info, "ahead", kDepth);
  if (found == "\"none\"") return Ahead::kNone;
  if (found == "\"image\"") return Ahead::kImage;
  if (found == "\"prompt\"") return Ahead::kPrompt;
  throw std::runtime_error("the manifest does not say what sees ahead in a way that the runner knows");
}

std::optional<RowGrid> grid_of(std::string_view info, int64_t rows) {
  const std::vector<int64_t> found = numbers_of(info, "grid", kDepth);
  if (found.empty()) return std::nullopt;
  if (found.size() != 2 || found[0] < 1 || found[1] < 1 || found[0] > rows || found[0] * found[1] != rows) {
    throw std::runtime_error("the manifest's grid of rows is not one of so many rows");
  }
  return RowGrid{found[0], found[1]};
}

}  // namespace

VisionFacts read_vision_facts(std::string_view manifest) {
  const std::string_view info = object_of(manifest, "vision_language", 1);
  if (info.empty()) throw ImageRefusal(EDGEC_VISION_ABSENT, "the bundle's model has no vision");
  VisionFacts facts;
  facts.context = number_of(object_of(info, "limits", kDepth), "context", kDepth + 1);
  facts.height = count(info, "height", kMostEdge);
  facts.width = count(info, "width", kMostEdge);
  facts.rows = count(info, "rows", std::min(facts.context, kMostRows));
  facts.image_token = number_of(info, "image_token", kDepth);
  facts.ahead = ahead_of(info);
  facts.grid = grid_of(info, facts.rows);
  if (count(info, "channels", kMostEdge) != kColours || facts.height * facts.width > kMostMade) {
    throw std::runtime_error("the manifest's tiles are beyond what the runner makes");
  }
  return facts;
}

}  // namespace edgec::runner
