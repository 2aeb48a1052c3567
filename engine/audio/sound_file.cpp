#include "sound_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace edgec::runner {
namespace {

constexpr int64_t kHeaderBytes = 12;
constexpr int64_t kChunkBytes = 8;
constexpr int64_t kFormatBytes = 16;
constexpr int64_t kSubformatBytes = 26;
constexpr int64_t kMostChannels = 8;
constexpr int64_t kFramesAtOnce = 1 << 14;
constexpr uint32_t kIntegers = 1, kFloats = 3, kExtensible = 0xFFFE;

struct SoundFormat {
  uint32_t kind = 0;
  int64_t channels = 0;
  int64_t rate = 0;
  int64_t bits = 0;

  int64_t frame_bytes() const { return channels * bits / 8; }
};

struct SoundData {
  SoundFormat format;
  int64_t start = 0;
  int64_t bytes = 0;
};

[[noreturn]] void refuse(
    const std::string& path, const std::string& why, EdgecAudioStatus status = EDGEC_SOUND_UNREADABLE) {
  throw engine::Failure(status, "the sound cannot be read: " + (path.empty() ? "" : path + ": ") + why);
}

// A little-endian number of 1 to 4 bytes.
uint32_t number(const uint8_t* bytes, int64_t count) {
  uint32_t value = 0;
  for (int64_t at = 0; at < count; ++at) {
    value |= static_cast<uint32_t>(bytes[at]) << (8 * at);
  }
  return value;
}

// Reads up to `size` bytes at `place` and returns those that are there.
std::vector<uint8_t> bytes_at(std::ifstream& file, int64_t place, int64_t size) {
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  file.clear();
  file.seekg(place);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

bool is_known(const SoundFormat& format) {
  const bool integers = format.kind == kIntegers && format.bits >= 8 && format.bits <= 32 && format.bits % 8 == 0;
  const bool floats = format.kind == kFloats && format.bits == 32;
  return (integers || floats) && format.channels >= 1 && format.channels <= kMostChannels && format.rate > 0;
}

SoundFormat described(const std::vector<uint8_t>& chunk, const std::string& path) {
  if (static_cast<int64_t>(chunk.size()) < kFormatBytes) {
    refuse(path, "it is cut off within its header");
  }
  SoundFormat format{number(chunk.data(), 2), number(&chunk[2], 2), number(&chunk[4], 4), number(&chunk[14], 2)};
  if (format.kind == kExtensible && static_cast<int64_t>(chunk.size()) >= kSubformatBytes) {
    format.kind = number(&chunk[kSubformatBytes - 2], 2);
  }
  if (!is_known(format)) {
    refuse(path, "its format is not one of integers of 8 to 32 bits or floats, with up to 8 channels");
  }
  return format;
}

// Finds the format and the samples among the chunks of the file.
SoundData located(std::ifstream& file, int64_t size, const std::string& path) {
  const std::vector<uint8_t> header = bytes_at(file, 0, kHeaderBytes);
  if (static_cast<int64_t>(header.size()) < kHeaderBytes || std::memcmp(header.data(), "RIFF", 4) != 0 ||
      std::memcmp(&header[8], "WAVE", 4) != 0) {
    refuse(path, "it does not begin as RIFF WAVE files do");
  }
  SoundData data;
  for (int64_t place = kHeaderBytes; place + kChunkBytes <= size;) {
    const std::vector<uint8_t> chunk = bytes_at(file, place, kChunkBytes);
    if (static_cast<int64_t>(chunk.size()) < kChunkBytes) break;
    const int64_t length = number(&chunk[4], 4);
    place += kChunkBytes;
    if (std::memcmp(chunk.data(), "fmt ", 4) == 0) {
      data.format = described(bytes_at(file, place, std::min(length, kSubformatBytes)), path);
    } else if (std::memcmp(chunk.data(), "data", 4) == 0) {
      if (data.format.channels == 0) refuse(path, "its samples come before their format");
      if (length > size - place) refuse(path, "more bytes of samples are announced than are there");
      data.start = place;
      data.bytes = length;
      return data;
    }
    place += length + length % 2;
  }
  refuse(path, "it is cut off within its header, or holds no samples");
}

// `path` is empty for samples that are not of a file.
void check(int64_t frames, int64_t rate, int64_t sampling_rate, const std::string& path) {
  if (frames <= 0) refuse(path, "it is empty", EDGEC_SOUND_EMPTY);
  if (frames / rate >= kLongestSeconds) refuse(path, "it lasts longer than four hours", EDGEC_SOUND_TOO_LONG);
  if (rate != sampling_rate) {
    const std::string both = std::to_string(rate) + " samples a second, and the model expects ";
    refuse(path, "it has " + both + std::to_string(sampling_rate), EDGEC_SOUND_RATE);
  }
}

// One sample of one channel in -1..1.
float value_of(const uint8_t* bytes, const SoundFormat& format) {
  const uint32_t raw = number(bytes, format.bits / 8);
  if (format.kind == kFloats) {
    float value = 0;
    std::memcpy(&value, &raw, sizeof value);
    return value;
  }
  constexpr float kScale = 2147483648.0f;
  if (format.bits == 8) {
    return static_cast<float>(raw) / 128.0f - 1.0f;
  }
  return static_cast<float>(static_cast<int32_t>(raw << (32 - format.bits))) / kScale;
}

// The mean of the channels; what is not finite counts as silence.
float mixed(const uint8_t* frame, const SoundFormat& format) {
  float sum = 0;
  for (int64_t channel = 0; channel < format.channels; ++channel) {
    sum += value_of(frame + channel * format.bits / 8, format);
  }
  const float mean = sum / static_cast<float>(format.channels);
  return std::isfinite(mean) ? mean : 0.0f;
}

}  // namespace

std::vector<float> read_sound(const std::string& path, int64_t sampling_rate) {
  std::error_code failure;
  const auto size = std::filesystem::is_regular_file(path, failure) ? std::filesystem::file_size(path, failure) : 0;
  std::ifstream file(path, std::ios::binary);
  if (failure || !file) {
    refuse(path, "there is no such file, or it may not be read");
  }
  const SoundData data = located(file, static_cast<int64_t>(size), path);
  const int64_t frame = data.format.frame_bytes(), frames = data.bytes / frame;
  check(frames, data.format.rate, sampling_rate, path);
  std::vector<float> samples;
  samples.reserve(static_cast<size_t>(frames));
  for (int64_t first = 0; first < frames; first += kFramesAtOnce) {
    const int64_t wanted = std::min(kFramesAtOnce, frames - first) * frame;
    const std::vector<uint8_t> bytes = bytes_at(file, data.start + first * frame, wanted);
    if (static_cast<int64_t>(bytes.size()) < wanted) refuse(path, "it became shorter while it was read");
    for (int64_t at = 0; at < wanted; at += frame) {
      samples.push_back(mixed(&bytes[static_cast<size_t>(at)], data.format));
    }
  }
  return samples;
}

std::vector<float> checked_sound(const float* samples, int64_t count, int64_t rate, int64_t sampling_rate) {
  if (rate <= 0) refuse("", "its rate is not a positive number", EDGEC_SOUND_RATE);
  check(count, rate, sampling_rate, "");
  std::vector<float> copy(samples, samples + count);
  if (!std::all_of(copy.begin(), copy.end(), [](float sample) { return std::isfinite(sample); })) {
    refuse("", "it holds values that are not finite", EDGEC_SOUND_NOT_FINITE);
  }
  return copy;
}

}  // namespace edgec::runner
