// A sound as one channel of float32 samples, from a WAV file or from the caller. Files are not trusted: size, format,
// length and rate are checked before any memory is taken for samples.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "edgec/audio.h"
#include "core/plain_failure.h"

namespace edgec::runner {

// The longest sound that is read; four hours at 16 kHz take 0.9 GB.
constexpr int64_t kLongestSeconds = 4 * 3600;

// RIFF WAVE with integers of 8, 16, 24 or 32 bits or floats of 32 bits and up to eight channels, which are averaged.
// Throws Failure where the file is another, is cut off, empty or too long, or has another rate than `sampling_rate` Hz.
std::vector<float> read_sound(const std::string& path, int64_t sampling_rate);

// Copies `count` samples at `rate` Hz. Throws Failure where there are none, too many, some that are not finite, or where
// they have another rate than `sampling_rate` Hz.
std::vector<float> checked_sound(const float* samples, int64_t count, int64_t rate, int64_t sampling_rate);

}  // namespace edgec::runner
