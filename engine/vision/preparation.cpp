#include "preparation.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/json_facts.h"
#include "core/plain_failure.h"

namespace edgec::runner {
namespace {

using engine::JsonText;
using engine::read_choice;
using engine::read_fields;

// As bundle/image_preparation.py limits them.
constexpr int64_t kMostEdge = int64_t{1} << 14;
constexpr int64_t kMostTiles = 64;
constexpr size_t kMostText = 1024, kMostPlaceholder = 256, kMostReason = 4096;
constexpr double kMostFactor = 1e6, kMostArea = 1e12;

void refuse_unless(bool fine, const JsonText& json, const std::string& what) {
  if (!fine) json.refuse(what);
}

int64_t count(JsonText& json, int64_t most) {
  const int64_t value = json.natural();
  refuse_unless(value >= 1 && value <= most, json, "a number out of range");
  return value;
}

double between(JsonText& json, double least, double most) {
  const double value = json.number();
  refuse_unless(value >= least && value <= most, json, "a number out of range");
  return value;
}

double factor(JsonText& json) {
  const double value = between(json, 0.0, kMostFactor);
  refuse_unless(value > 0.0, json, "a number out of range");
  return value;
}

std::string text(JsonText& json, size_t most = kMostText) {
  std::string value = json.string();
  refuse_unless(value.size() <= most, json, "a text that is too long");
  return value;
}

// Exactly three values.
template <typename Value, typename Read>
std::array<Value, 3> three(JsonText& json, const Read& read) {
  std::array<Value, 3> values{};
  size_t at = 0;
  json.array([&] {
    refuse_unless(at < values.size(), json, "a list of more than three values");
    values[at++] = static_cast<Value>(read());
  });
  refuse_unless(at == values.size(), json, "a list of fewer than three values");
  return values;
}

ImageLevels read_levels(JsonText& json) {
  ImageLevels levels;
  read_fields(
      json, 3,
      {{"scale", [&] { levels.scale = factor(json); }},
       {"mean", [&] { levels.mean = three<double>(json, [&] { return between(json, -kMostFactor, kMostFactor); }); }},
       {"std", [&] { levels.std = three<double>(json, [&] { return factor(json); }); }}});
  return levels;
}

WholeImage read_whole(JsonText& json) {
  WholeImage whole;
  bool coloured = false;
  const auto level = [&] {
    const int64_t value = json.natural();
    refuse_unless(value <= 255, json, "a colour out of range");
    return value;
  };
  read_fields(
      json, 2,
      {{"fit", [&] { whole.fit = read_choice<ImageFit>(json, {"stretch", "cover", "contain"}); }},
       {"resample",
        [&] {
          whole.resample =
              read_choice<Resampling>(json, {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"});
        }},
       {"edge", [&] { whole.edge = count(json, kMostEdge); }},
       {"colour", [&] {
          whole.colour = three<uint8_t>(json, level);
          coloured = true;
        }}});
  const bool agree = (whole.edge > 0) == (whole.fit == ImageFit::kCover) && coloured == (whole.fit == ImageFit::kContain);
  refuse_unless(agree, json, "an edge or a colour that does not belong to its fit");
  return whole;
}

LargeImages read_large(JsonText& json) {
  LargeImages large;
  read_fields(
      json, 3,
      {{"step", [&] { large.step = count(json, kMostEdge); }},
       {"least", [&] { large.least = count(json, kMostEdge); }},
       {"above", [&] { large.above = between(json, 0.0, kMostArea); }}});
  return large;
}

ImageGrid read_grid(JsonText& json) {
  ImageGrid grid;
  grid.fewest = grid.most = 0;
  read_fields(
      json, 2,
      {{"rule", [&] { grid.rule = read_choice<GridRule>(json, {"longest_edge", "proportions"}); }},
       {"whole", [&] { grid.whole_last = read_choice<int>(json, {"none", "last"}) == 1; }},
       {"edge", [&] { grid.edge = count(json, kMostEdge); }},
       {"fewest", [&] { grid.fewest = count(json, kMostTiles); }},
       {"most", [&] { grid.most = count(json, kMostTiles); }},
       {"large", [&] { grid.large = read_large(json); }},
       {"sharing", [&] { grid.shares_context = read_choice<int>(json, {"none", "context"}) == 1; }}});
  const bool by_edge = grid.rule == GridRule::kLongestEdge;
  refuse_unless(
      (grid.edge > 0) == by_edge && (grid.fewest > 0) != by_edge && (grid.most > 0) != by_edge, json,
      "an edge or a number of tiles that does not belong to its rule");
  return grid;
}

GridTexts read_grid_texts(JsonText& json) {
  GridTexts texts;
  read_fields(
      json, 5,
      {{"begin", [&] { texts.begin = text(json); }},
       {"tile", [&] { texts.tile = text(json); }},
       {"line", [&] { texts.line = text(json); }},
       {"whole", [&] { texts.whole = text(json); }},
       {"end", [&] { texts.end = text(json); }}});
  return texts;
}

ImageTexts read_texts(JsonText& json) {
  ImageTexts texts;
  read_fields(
      json, 2,
      {{"placeholder", [&] { texts.placeholder = text(json, kMostPlaceholder); }},
       {"row", [&] { texts.row = text(json, kMostPlaceholder); }},
       {"before", [&] { texts.before = text(json); }},
       {"after", [&] { texts.after = text(json); }},
       {"grid", [&] { texts.grid = read_grid_texts(json); }},
       {"after_images", [&] { texts.after_images = text(json); }},
       {"end", [&] { texts.end = text(json); }},
       {"special_tokens", [&] { texts.special_tokens = read_choice<int>(json, {"never", "as_text"}) == 1; }}});
  refuse_unless(!texts.placeholder.empty() && !texts.row.empty(), json, "a placeholder or a row without a text");
  return texts;
}

Preparation read_described(JsonText& json) {
  Preparation made;
  read_fields(
      json, 3,
      {{"levels", [&] { made.levels = read_levels(json); }},
       {"whole", [&] { made.whole = read_whole(json); }},
       {"texts", [&] { made.texts = read_texts(json); }},
       {"grid", [&] { made.grid = read_grid(json); }}});
  refuse_unless(made.grid.has_value() == made.texts.grid.has_value(), json, "a grid without its texts, or texts without a grid");
  return made;
}

}  // namespace

Preparation read_preparation(std::string_view file) {
  JsonText json(file, "the bundle's images/preparation.json", EDGEC_VISION_UNDESCRIBED);
  std::optional<Preparation> made;
  std::string lacking;
  read_fields(
      json, 0,
      {{"preparation", [&] { made = read_described(json); }}, {"lacking", [&] { lacking = text(json, kMostReason); }}});
  json.end();
  refuse_unless(made.has_value() == lacking.empty(), json, "other than a preparation or the reason why there is none");
  if (!made) {
    throw engine::Failure(
        EDGEC_VISION_UNDESCRIBED, "the bundle does not describe how its images are prepared: " + lacking);
  }
  return *made;
}

}  // namespace edgec::runner
