#include "tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace edgec::runner {
namespace {

constexpr int64_t kLevels = 256;
// Pixels that Idefics3's processor gives to the longer edge at most.
constexpr int64_t kLongestEdge = 4096;

// Whole numbers as Python's int() and round() make them of a float: towards zero, and to the nearer one, of two to the
// even one.
int64_t cut(double value) { return static_cast<int64_t>(value); }
int64_t rounded(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

double ratio(PixelSize size) {
  return static_cast<double>(size.width) / static_cast<double>(size.height);
}

int64_t up_to(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// Floor of half a difference, which may be negative.
int64_t half(int64_t difference) {
  return difference >= 0 ? difference / 2 : -((1 - difference) / 2);
}

void check_made(int64_t width, int64_t height) {
  const bool fine = width >= 1 && height >= 1 && width <= kMostMade / height;
  if (!fine) {
    throw engine::Failure(
        EDGEC_IMAGE_SIZE, "the image would be scaled to " + std::to_string(width) + " x " + std::to_string(height) +
                              " pixels; scale very small or long images first");
  }
}

// The longer edge of so many pixels, the other an even number, neither above kLongestEdge.
PixelSize with_longest_edge(PixelSize size, int64_t edge) {
  const double of = ratio(size);
  if (size.width >= size.height) {
    const int64_t height = cut(static_cast<double>(edge) / of);
    size = {edge, height + height % 2};
  } else {
    const int64_t width = cut(static_cast<double>(edge) * of);
    size = {width + width % 2, edge};
  }
  size = {std::max<int64_t>(size.width, 1), std::max<int64_t>(size.height, 1)};
  const double now = ratio(size);
  if (size.width >= size.height && size.width > kLongestEdge) {
    size = {kLongestEdge, cut(static_cast<double>(kLongestEdge) / now)};
  } else if (size.height > size.width && size.height > kLongestEdge) {
    size = {cut(static_cast<double>(kLongestEdge) * now), kLongestEdge};
  }
  return {std::max<int64_t>(size.width, 1), std::max<int64_t>(size.height, 1)};
}

// The shorter edge of so many pixels.
PixelSize covering(PixelSize size, int64_t edge) {
  const auto longer = [edge](int64_t longest, int64_t shortest) {
    return cut(static_cast<double>(edge * longest) / static_cast<double>(shortest));
  };
  if (size.width <= size.height) return {edge, longer(size.height, size.width)};
  return {longer(size.width, size.height), edge};
}

// As large as fits into a tile.
PixelSize contained(PixelSize size, PixelSize tile) {
  const double own = ratio(size), wanted = ratio(tile);
  const auto high = static_cast<double>(size.height), wide = static_cast<double>(size.width);
  if (own > wanted) return {tile.width, rounded(high / wide * static_cast<double>(tile.width))};
  if (own < wanted) return {rounded(wide / high * static_cast<double>(tile.height)), tile.height};
  return tile;
}

bool is_large(const LargeImages& large, PixelSize size) {
  const auto edge = [&](int64_t pixels) {
    const double steps = static_cast<double>(pixels) / static_cast<double>(large.step);
    return std::max(large.least, rounded(steps) * large.step);
  };
  return static_cast<double>(edge(size.width) * edge(size.height)) > large.above;
}

// The grid of `fewest` to `most` tiles whose proportions are nearest to the image's; of equal ones the finest that the
// image fills at least by half.
TileGrid nearest_grid(PixelSize size, PixelSize tile, int64_t fewest, int64_t most) {
  TileGrid best;
  double nearest = INFINITY;
  for (int64_t parts = fewest; parts <= most; ++parts) {
    for (int64_t columns = 1; columns <= parts; ++columns) {
      if (parts % columns != 0) continue;
      const int64_t lines = parts / columns;
      const double far = std::fabs(ratio(size) - static_cast<double>(columns) / static_cast<double>(lines));
      const double filled = 0.5 * static_cast<double>(tile.pixels()) * static_cast<double>(parts);
      if (far < nearest || (far == nearest && static_cast<double>(size.pixels()) > filled)) {
        nearest = far;
        best = {columns, lines, false};
      }
    }
  }
  return best;
}

// Copy a part of an image that begins at (left, top), which may be negative; pixels outside the image stay as they are.
void paste(const Picture& from, int64_t left, int64_t top, Picture& to) {
  const int64_t first = std::max<int64_t>(0, -left), end = std::min(to.size.width, from.size.width - left);
  if (first >= end) return;
  for (int64_t y = std::max<int64_t>(0, -top); y < std::min(to.size.height, from.size.height - top); ++y) {
    const uint8_t* line = from.bytes.data() + ((y + top) * from.size.width + first + left) * kColours;
    std::memcpy(to.line(y) + first * kColours, line, static_cast<size_t>((end - first) * kColours));
  }
}

}  // namespace

TileMaker::TileMaker(const Preparation& preparation, const VisionFacts& facts)
    : preparation_(preparation), tile_{facts.width, facts.height}, tiles_of_context_(facts.context / facts.rows) {
  const ImageLevels& levels = preparation.levels;
  if (preparation.grid && tile_.width != tile_.height) {
    throw engine::Failure(EDGEC_VISION_UNDESCRIBED, "the bundle describes a grid of tiles that are not square");
  }
  for (size_t colour = 0; colour < kColours; ++colour) {
    const auto mean = static_cast<float>(levels.mean[colour]), std = static_cast<float>(levels.std[colour]);
    for (int64_t level = 0; level < kLevels; ++level) {
      levels_.push_back((static_cast<float>(static_cast<double>(level) * levels.scale) - mean) / std);
    }
  }
}

// The size rounded up to whole tiles, the longer edge first.
PixelSize TileMaker::canvas(PixelSize scaled) const {
  const double of = ratio(scaled);
  if (scaled.width >= scaled.height) {
    const int64_t width = up_to(scaled.width, tile_.height);
    scaled = {width, up_to(cut(static_cast<double>(width) / of), tile_.height)};
  } else {
    const int64_t height = up_to(scaled.height, tile_.height);
    scaled = {up_to(cut(static_cast<double>(height) * of), tile_.height), height};
  }
  check_made(scaled.width, scaled.height);
  return scaled;
}

TileGrid TileMaker::grid(PixelSize size, int64_t images) const {
  check_size(size.width, size.height);
  if (!preparation_.grid) return {};
  const ImageGrid& rule = *preparation_.grid;
  TileGrid made;
  if (rule.rule == GridRule::kLongestEdge) {
    const PixelSize all = canvas(with_longest_edge(size, rule.edge));
    made = {all.width / tile_.width, all.height / tile_.height, false};
  } else if (!rule.large || is_large(*rule.large, size)) {
    const int64_t share = (tiles_of_context_ - 1) / std::max<int64_t>(images, 1) - (rule.whole_last ? 1 : 0);
    made = nearest_grid(size, tile_, rule.fewest, rule.shares_context ? std::min(share, rule.most) : rule.most);
  }
  made.whole = made.parts() > 1 && rule.whole_last;
  check_made(made.columns * tile_.width, made.lines * tile_.height);
  return made;
}

std::vector<uint8_t> TileMaker::tiles(const PixelView& image, int64_t images) const {
  const TileGrid made = grid(image.size, images);
  const Resampling how = preparation_.whole.resample;
  const PixelSize all{made.columns * tile_.width, made.lines * tile_.height};
  std::vector<uint8_t> out;
  out.reserve(static_cast<size_t>(made.tiles()) * tile_bytes());
  const auto add = [&out](const Picture& tile) { out.insert(out.end(), tile.bytes.begin(), tile.bytes.end()); };
  std::optional<Picture> scaled;
  if (preparation_.grid && preparation_.grid->rule == GridRule::kLongestEdge) {
    scaled = resample(image, with_longest_edge(image.size, preparation_.grid->edge), how);
    scaled = resample(scaled->view(), all, how);
  }
  const bool kept = scaled.has_value();
  if (made.parts() > 1) {
    if (!kept) scaled = resample(image, all, how);
    for (int64_t part = 0; part < made.parts(); ++part) {
      Picture tile(tile_);
      paste(*scaled, part % made.columns * tile_.width, part / made.columns * tile_.height, tile);
      add(tile);
    }
  }
  if (made.parts() == 1 || made.whole) add(whole(kept ? scaled->view() : image));
  return out;
}

Picture TileMaker::whole(const PixelView& image) const {
  const WholeImage& rule = preparation_.whole;
  if (rule.fit == ImageFit::kStretch) return resample(image, tile_, rule.resample);
  Picture tile(tile_);
  if (rule.fit == ImageFit::kCover) {
    const PixelSize size = covering(image.size, rule.edge);
    check_made(size.width, size.height);
    const Picture scaled = resample(image, size, rule.resample);
    paste(scaled, half(size.width - tile_.width), half(size.height - tile_.height), tile);
    return tile;
  }
  for (size_t at = 0; at < tile.bytes.size(); ++at) tile.bytes[at] = rule.colour[at % kColours];
  const PixelSize size = contained(image.size, tile_);
  if (size.width < 1 || size.height < 1) return tile;  // As Pillow: so thin that nothing of it is left.
  const auto middle = [](int64_t room) { return rounded(static_cast<double>(room) * 0.5); };
  const int64_t left = middle(tile_.width - size.width), top = middle(tile_.height - size.height);
  paste(resample(image, size, rule.resample), -left, -top, tile);
  return tile;
}

void TileMaker::values(const uint8_t* tile, float* out) const {
  const auto pixels = static_cast<size_t>(tile_.pixels());
  for (size_t colour = 0; colour < kColours; ++colour) {
    const float* levels = &levels_[colour * kLevels];
    for (size_t at = 0; at < pixels; ++at) *out++ = levels[tile[at * kColours + colour]];
  }
}

}  // namespace edgec::runner
