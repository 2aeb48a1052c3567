// Reads a WAV file as one channel of float32 samples. The file is not trusted: its size, format, length and rate are
// checked before any memory is taken for samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace edgec::runner {

// The longest sound that is read; four hours at 16 kHz take 0.9 GB.
constexpr int64_t kLongestSeconds = 4 * 3600;

// RIFF WAVE with integers of 8, 16, 24 or 32 bits or floats of 32 bits and up to eight channels, which are averaged.
// Throws std::runtime_error with the reason where the file is another, is cut off, empty or too long, or has another
// rate than `sampling_rate` Hz.
std::vector<float> read_sound(const std::string& path, int64_t sampling_rate);

}  // namespace edgec::runner
