#include "described_images.h"

#include <fstream>
#include <stdexcept>
#include <vector>

#include "core/json_facts.h"
#include "texts.h"

namespace edgec::runner {
namespace {

// The text of a bundle's description of its images. Throws Failure where it has none.
std::string preparation_text(const std::string& bundle) {
  const std::string path = bundle + "/images/preparation.json";
  if (!std::ifstream(path, std::ios::binary)) {
    throw engine::Failure(
        EDGEC_VISION_UNDESCRIBED,
        "the bundle has no images/preparation.json: it was made by an older edgec; export the model again");
  }
  return engine::file_text(path);
}

}  // namespace

DescribedImages::DescribedImages(const std::string& bundle)
    : facts_(read_vision_facts(engine::file_text(bundle + "/manifest.json"))),
      preparation_(read_preparation(preparation_text(bundle))),
      maker_(preparation_, facts_) {}

TileGrid DescribedImages::grid(PixelSize size, int64_t images) const {
  if (images < 1) throw std::invalid_argument("a prompt with an image has one at least");
  const TileGrid grid = maker_.grid(size, images);
  if (grid.tiles() > (facts_.context - 1) / facts_.rows) {
    throw engine::Failure(
        EDGEC_IMAGES_TOO_MANY, "the image has " + std::to_string(grid.tiles()) + " tiles of " +
                                   std::to_string(facts_.rows) + " tokens, and the context holds " +
                                   std::to_string(facts_.context) + " tokens");
  }
  return grid;
}

std::string DescribedImages::text(PixelSize size, int64_t images) const {
  return image_text(preparation_.texts, grid(size, images), facts_.rows);
}

std::string DescribedImages::prompt(std::string_view own, const int64_t* sizes, int64_t images) const {
  if (images < 0) throw std::invalid_argument("the number of images is negative");
  const int64_t most = (facts_.context - 1) / facts_.rows;
  if (images > most) {
    throw engine::Failure(EDGEC_IMAGES_TOO_MANY, "the context holds no more than " + std::to_string(most) + " images");
  }
  std::vector<std::string> all;
  for (int64_t image = 0; image < images; ++image) {
    all.push_back(text({sizes[2 * image], sizes[2 * image + 1]}, images));
  }
  return prompt_text(preparation_.texts, own, all);
}

void DescribedImages::tiles(const PixelView& image, int64_t images, float* out, size_t count) const {
  const TileGrid made = grid(image.size, images);
  const size_t size = maker_.tile_bytes();
  if (count != static_cast<size_t>(made.tiles()) * size) {
    throw std::invalid_argument("the tiles have another size than there is room for");
  }
  const std::vector<uint8_t> bytes = maker_.tiles(image, images);
  for (size_t at = 0; at < count; at += size) maker_.values(&bytes[at], out + at);
}

}  // namespace edgec::runner
