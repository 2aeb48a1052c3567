#include "image_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>

#include "core/number_text.h"

namespace edgec::runner {
namespace {

constexpr size_t kMostWord = 16;
constexpr int64_t kMostEdge = INT32_MAX;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw std::runtime_error(
      "the image cannot be read: " + path + ": " + why +
      "; the runner reads binary PPM files (P6) of 8 bits, which \"magick photo.jpg -auto-orient -depth 8 photo.ppm\" or "
      "Pillow's save(\"photo.ppm\") write");
}

bool is_space(int letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r' || letter == '\v' || letter == '\f';
}

// The next word of the header; what follows # up to the line's end is a comment. The letter after the word is taken too.
std::string word(std::ifstream& file, const std::string& path) {
  int letter = file.get();
  for (bool comment = false; file && (comment || letter == '#' || is_space(letter)); letter = file.get()) {
    comment = letter != '\n' && (comment || letter == '#');
  }
  std::string found;
  for (; file && !is_space(letter) && found.size() < kMostWord; letter = file.get()) found += static_cast<char>(letter);
  if (!file || !is_space(letter)) refuse(path, "its header is cut off, or is another kind's");
  return found;
}

int64_t header_number(std::ifstream& file, const std::string& path) {
  const std::string text = word(file, path);
  try {
    return read_number(text, kMostEdge);
  } catch (const std::runtime_error& fault) {
    refuse(path, fault.what());
  }
}

}  // namespace

Picture read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "there is no such file");
  if (file.get() != 'P' || file.get() != '6') refuse(path, "it is another kind of file");
  const int64_t width = header_number(file, path), height = header_number(file, path);
  if (header_number(file, path) != 255) refuse(path, "its colours do not have 8 bits");
  check_size(width, height);
  const std::streamoff begin = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streamoff room = static_cast<std::streamoff>(file.tellg()) - begin;
  const PixelSize size{width, height};
  if (room < size.pixels() * kColours) refuse(path, "its pixels are cut off");
  file.seekg(begin);
  Picture picture(size);
  file.read(reinterpret_cast<char*>(picture.bytes.data()), static_cast<std::streamsize>(picture.bytes.size()));
  if (!file) refuse(path, "its pixels cannot be read");
  return picture;
}

}  // namespace edgec::runner
