#include "preparation.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/plain_failure.h"
#include "core/json_text.h"

namespace edgec::runner {
namespace {

using engine::Failure;
using engine::JsonText;

// As bundle/image_preparation.py limits them.
constexpr int64_t kMostEdge = int64_t{1} << 14;
constexpr int64_t kMostTiles = 64;
constexpr size_t kMostText = 1024, kMostPlaceholder = 256, kMostReason = 4096;
constexpr double kMostFactor = 1e6, kMostArea = 1e12;

[[noreturn]] void refuse(const std::string& why) {
  throw ImageRefusal(EDGEC_VISION_UNDESCRIBED, "the bundle's images/preparation.json cannot be read: " + why);
}

void refuse_unless(bool fine, const std::string& why) {
  if (!fine) refuse(why);
}

int64_t count(JsonText& json, int64_t most) {
  const int64_t value = json.natural();
  refuse_unless(value >= 1 && value <= most, "a number is out of range");
  return value;
}

double between(JsonText& json, double least, double most) {
  const double value = json.number();
  refuse_unless(value >= least && value <= most, "a number is out of range");
  return value;
}

double factor(JsonText& json) {
  const double value = between(json, 0.0, kMostFactor);
  refuse_unless(value > 0.0, "a number is out of range");
  return value;
}

std::string text(JsonText& json, size_t most = kMostText) {
  std::string value = json.string();
  refuse_unless(value.size() <= most, "a text is too long");
  return value;
}

// One of several names; their order is that of the enumeration.
template <typename Choice>
Choice choice(JsonText& json, std::initializer_list<const char*> names) {
  const std::string name = json.string();
  const auto found = std::find(names.begin(), names.end(), name);
  refuse_unless(found != names.end(), "a name is unknown");
  return static_cast<Choice>(found - names.begin());
}

// Exactly three values.
template <typename Value, typename Read>
std::array<Value, 3> three(JsonText& json, const Read& read) {
  std::array<Value, 3> values{};
  size_t at = 0;
  json.array([&] {
    refuse_unless(at < values.size(), "a list has more than three values");
    values[at++] = static_cast<Value>(read());
  });
  refuse_unless(at == values.size(), "a list has fewer than three values");
  return values;
}

// A table of an object's fields, each read by its own function; the first `wanted` must be there.
using Fields = std::vector<std::pair<const char*, std::function<void()>>>;

void read_fields(JsonText& json, size_t wanted, const Fields& fields) {
  std::vector<bool> seen(fields.size());
  json.object([&](const std::string& name) {
    const auto is_named = [&](const auto& field) { return name == field.first; };
    const auto field = std::find_if(fields.begin(), fields.end(), is_named);
    refuse_unless(field != fields.end(), "a field is unknown");
    seen[static_cast<size_t>(field - fields.begin())] = true;
    field->second();
  });
  refuse_unless(std::all_of(seen.begin(), seen.begin() + static_cast<int64_t>(wanted), [](bool one) { return one; }),
                "a field is absent");
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
    refuse_unless(value <= 255, "a colour is out of range");
    return value;
  };
  read_fields(
      json, 2,
      {{"fit", [&] { whole.fit = choice<ImageFit>(json, {"stretch", "cover", "contain"}); }},
       {"resample",
        [&] {
          whole.resample =
              choice<Resampling>(json, {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"});
        }},
       {"edge", [&] { whole.edge = count(json, kMostEdge); }},
       {"colour", [&] {
          whole.colour = three<uint8_t>(json, level);
          coloured = true;
        }}});
  const bool agree = (whole.edge > 0) == (whole.fit == ImageFit::kCover) && coloured == (whole.fit == ImageFit::kContain);
  refuse_unless(agree, "an edge belongs to cover, and a colour to contain");
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
      {{"rule", [&] { grid.rule = choice<GridRule>(json, {"longest_edge", "proportions"}); }},
       {"whole", [&] { grid.whole_last = choice<int>(json, {"none", "last"}) == 1; }},
       {"edge", [&] { grid.edge = count(json, kMostEdge); }},
       {"fewest", [&] { grid.fewest = count(json, kMostTiles); }},
       {"most", [&] { grid.most = count(json, kMostTiles); }},
       {"large", [&] { grid.large = read_large(json); }},
       {"sharing", [&] { grid.shares_context = choice<int>(json, {"none", "context"}) == 1; }}});
  const bool by_edge = grid.rule == GridRule::kLongestEdge;
  refuse_unless(
      (grid.edge > 0) == by_edge && (grid.fewest > 0) != by_edge && (grid.most > 0) != by_edge,
      "an edge belongs to longest_edge, the fewest and most tiles to proportions");
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
       {"special_tokens", [&] { texts.special_tokens = choice<int>(json, {"never", "as_text"}) == 1; }}});
  refuse_unless(!texts.placeholder.empty() && !texts.row.empty(), "a placeholder or a row has no text");
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
  refuse_unless(made.grid.has_value() == made.texts.grid.has_value(), "a grid and its texts belong together");
  return made;
}

Preparation read_file(std::string_view file) {
  JsonText json(file);
  std::optional<Preparation> made;
  std::string lacking;
  read_fields(
      json, 0,
      {{"preparation", [&] { made = read_described(json); }}, {"lacking", [&] { lacking = text(json, kMostReason); }}});
  json.end();
  refuse_unless(made.has_value() == lacking.empty(), "it holds either a preparation or the reason why there is none");
  if (!made) {
    throw ImageRefusal(EDGEC_VISION_UNDESCRIBED, "the bundle does not describe how its images are prepared: " + lacking);
  }
  return *made;
}

}  // namespace

Preparation read_preparation(std::string_view text) {
  try {
    return read_file(text);
  } catch (const Failure& failure) {
    // JsonText speaks of the header of an adapter's file, which it was written for.
    const std::string why = failure.what(), header = "its header ";
    refuse(why.compare(0, header.size(), header) == 0 ? "it " + why.substr(header.size()) : why);
  }
}

}  // namespace edgec::runner
