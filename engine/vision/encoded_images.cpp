#include "encoded_images.h"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace edgec::runner {
namespace {

constexpr size_t kErrorLetters = 1024;
constexpr int32_t kFloat32 = 6;

// Adds the wall time of a call to a sum of milliseconds.
template <typename Call>
auto timed(double& ms, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  auto result = call();
  ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

// Whether every token of a prompt is in a call with all that it sees.
bool calls_hold(EdgecSession* session, int64_t count) {
  int64_t start = 0;
  for (int64_t size = 1; start < count && size > 0; start += size) {
    size = edgec_session_call_size(session, start, count);
  }
  return start >= count;
}

}  // namespace

EncodedImages::EncodedImages(const VisionFacts& facts, const TileMaker& maker, std::string artifact, std::string packed)
    : facts_(facts), maker_(maker), artifact_(std::move(artifact)), packed_(std::move(packed)) {}

void EncodedImages::begin(int64_t images) {
  if (images < 0) throw std::invalid_argument("the number of images is negative");
  // Each image has a tile at least, and one more token follows.
  if (images > (facts_.context - 1) / facts_.rows) {
    throw engine::Failure(
        EDGEC_IMAGES_TOO_MANY, std::to_string(images) + " images of " + std::to_string(facts_.rows) +
                                   " tokens or more do not fit into the context of " + std::to_string(facts_.context));
  }
  waiting_.clear();
  rows_.clear();
  images_ = images;
  added_ = read_ = width_ = 0;
  prepare_ms_ = encode_ms_ = 0;
}

void EncodedImages::add(const PixelView& image) {
  if (added_ == images_) throw std::invalid_argument("all images of the prompt have been added");
  const int64_t before = read_ + static_cast<int64_t>(waiting_.size());
  const int64_t most = (facts_.context - 1) / facts_.rows;
  const int64_t tiles = maker_.grid(image.size, images_).tiles();
  if (tiles > most - before) {
    throw engine::Failure(
        EDGEC_IMAGES_TOO_MANY, "the images have " + std::to_string(before + tiles) + " tiles of " +
                                   std::to_string(facts_.rows) + " tokens so far, and the context holds " +
                                   std::to_string(facts_.context) + " tokens");
  }
  const std::vector<uint8_t> all = timed(prepare_ms_, [&] { return maker_.tiles(image, images_); });
  const auto size = static_cast<int64_t>(maker_.tile_bytes());
  for (int64_t tile = 0; tile < tiles; ++tile) {
    waiting_.emplace_back(all.begin() + tile * size, all.begin() + (tile + 1) * size);
  }
  ++added_;
}

void EncodedImages::read(const float* tile) {
  if (encoder_ == nullptr) encoder_ = std::make_unique<Method>(artifact_, "vision_encoder", packed_);
  const EdgecTensor input{
      const_cast<float*>(tile), kFloat32, 4, {1, kColours, facts_.height, facts_.width}};
  const EdgecTensor made = timed(encode_ms_, [&] { return (*encoder_)({input}).front(); });
  const bool rows = made.dtype == kFloat32 && made.rank == 3 && made.sizes[0] == 1 && made.sizes[1] == facts_.rows &&
      made.sizes[2] > 0 && (width_ == 0 || made.sizes[2] == width_);
  if (!rows) throw std::runtime_error("the method vision_encoder does not return float32 [1, rows, width]");
  width_ = made.sizes[2];
  const auto* values = static_cast<const float*>(made.data);
  rows_.insert(rows_.end(), values, values + facts_.rows * width_);
  ++read_;
}

int64_t EncodedImages::step() {
  if (waiting_.empty()) return 0;
  std::vector<float> tile(maker_.tile_bytes());
  timed(prepare_ms_, [&] {
    maker_.values(waiting_.front().data(), tile.data());
    return 0;
  });
  read(tile.data());
  waiting_.pop_front();
  return static_cast<int64_t>(waiting_.size());
}

void EncodedImages::encode(const float* tile, size_t count) {
  if (count != maker_.tile_bytes()) throw std::invalid_argument("the tile has another size than the image encoder reads");
  begin(1);
  read(tile);
  added_ = 1;
}

int64_t EncodedImages::place(EdgecSession* session, const int64_t* tokens, size_t count) const {
  const PromptPlaces places = prompt_places(facts_, tokens, count);
  if (added_ != images_ || !waiting_.empty()) throw std::invalid_argument("not all images were added and read");
  check_places(facts_, places, read_);
  EdgecInputEmbeds given{};
  given.token_count = static_cast<int64_t>(count);
  given.embeds = rows_.data();
  given.count = static_cast<int64_t>(places.rows.size());
  given.width = width_;
  given.positions = places.rows.data();
  given.span_end = places.span_end.empty() ? nullptr : places.span_end.data();
  given.mrope = places.mrope.empty() ? nullptr : places.mrope.data();
  given.mrope_next = places.mrope_next;
  char error[kErrorLetters] = "";
  if (edgec_session_input_embeds(session, read_ == 0 ? nullptr : &given, error, sizeof error) != EDGEC_OK) {
    throw std::runtime_error(error);
  }
  if (!calls_hold(session, given.token_count)) {
    edgec_session_input_embeds(session, nullptr, nullptr, 0);
    throw engine::Failure(
        EDGEC_SPAN_TOO_LONG, "tokens of the prompt see more tokens than a call of the decoder takes; shorten the prompt");
  }
  return places.kept;
}

}  // namespace edgec::runner
