#include "shown_images.h"

#include <iostream>
#include <stdexcept>

#include "image_file.h"
#include "memory_use.h"

namespace edgec::runner {
namespace {

constexpr size_t kErrorLetters = 1024;

EdgecVision* opened_vision(const std::string& bundle, const std::string& artifact, const std::string& packed) {
  char error[kErrorLetters] = "";
  const std::string own = packed.empty() ? "" : packed + ".vision";
  EdgecVision* vision = edgec_vision_open(
      bundle.c_str(), artifact.c_str(), own.empty() ? nullptr : own.c_str(), nullptr, error, sizeof error);
  if (vision == nullptr) throw std::runtime_error(error);
  return vision;
}

// Make a call of the C interface; its error is thrown.
template <typename Call>
void checked(const Call& call) {
  char error[kErrorLetters] = "";
  if (call(error, sizeof error) != EDGEC_OK) throw std::runtime_error(error);
}

}  // namespace

ShownImages::ShownImages(
    const std::string& bundle, const std::string& artifact, const std::string& packed,
    const std::vector<std::string>& files)
    : vision_(opened_vision(bundle, artifact, packed), edgec_vision_close) {
  const auto count = static_cast<int64_t>(files.size());
  checked([&](char* error, size_t size) { return edgec_vision_begin(vision_.get(), count, error, size); });
  for (const std::string& file : files) {
    ShownImage image{read_image(file), {}};
    const PixelSize of = image.pixels.size;
    checked([&](char* error, size_t size) {
      return edgec_vision_tiles(vision_.get(), of.width, of.height, count, &image.tiles, error, size);
    });
    images_.push_back(std::move(image));
  }
}

void ShownImages::encode() {
  std::string said;
  for (ShownImage& image : images_) {
    const PixelSize of = image.pixels.size;
    const EdgecImage given{image.pixels.bytes.data(), of.width, of.height, 0, static_cast<int32_t>(kColours)};
    checked([&](char* error, size_t size) { return edgec_vision_add(vision_.get(), &given, error, size); });
    std::vector<uint8_t>().swap(image.pixels.bytes);
    for (int64_t left = 1; left > 0;) {
      checked([&](char* error, size_t size) { return edgec_vision_step(vision_.get(), &left, error, size); });
    }
    said += (said.empty() ? "" : ",") + std::string("{\"width\":") + std::to_string(of.width) +
        ",\"height\":" + std::to_string(of.height) + ",\"columns\":" + std::to_string(image.tiles.columns) +
        ",\"lines\":" + std::to_string(image.tiles.lines) + ",\"tiles\":" + std::to_string(image.tiles.tiles) +
        ",\"tokens\":" + std::to_string(image.tiles.tokens) + "}";
  }
  if (said.empty()) return;
  EdgecVisionTimes times{};
  edgec_vision_times(vision_.get(), &times);
  std::cout << "{\"event\":\"images\",\"images\":[" << said << "],\"prepare_ms\":" << times.prepare_ms
            << ",\"encode_ms\":" << times.encode_ms << ",\"peak_rss_bytes\":" << peak_rss_bytes()
            << ",\"anonymous_bytes\":" << anonymous_bytes() << "}" << std::endl;
}

void ShownImages::place(EdgecSession* session, const std::vector<int64_t>& tokens) const {
  int64_t kept = 0;
  checked([&](char* error, size_t size) {
    return edgec_vision_place(vision_.get(), session, tokens.data(), tokens.size(), &kept, error, size);
  });
}

}  // namespace edgec::runner
