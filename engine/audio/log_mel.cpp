#include "log_mel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace edgec::runner {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLeastPower = 1e-10;
constexpr double kRange = 8.0;  // of the logarithms, below the largest one
// Of Whisper's filters, Hz.
constexpr double kHighest = 8000.0;
// Limits of what a manifest may ask for.
constexpr int64_t kMostFft = 2048;
constexpr int64_t kMostMels = 512;
constexpr int64_t kMostSamples = 1 << 22;
// Slaney's scale: linear up to 1000 Hz, which is 15 mel, then 27 mel for each factor of 6.4.
constexpr double kHzPerMel = 200.0 / 3.0;
constexpr double kKneeHz = 1000.0;
constexpr double kKneeMel = 15.0;

double mel_of(double hz) {
  return hz < kKneeHz ? hz / kHzPerMel : kKneeMel + std::log(hz / kKneeHz) * 27.0 / std::log(6.4);
}

double hz_of(double mel) {
  return mel < kKneeMel ? mel * kHzPerMel : kKneeHz * std::exp((mel - kKneeMel) * std::log(6.4) / 27.0);
}

void check(const SoundShape& shape) {
  const bool sensible = shape.fft >= 2 && shape.fft <= kMostFft && shape.fft % 2 == 0 && shape.mels >= 1 &&
      shape.mels <= kMostMels && shape.hop >= 1 && shape.hop <= kMostSamples && shape.frames >= 1 &&
      shape.frames <= kMostSamples / shape.hop && shape.window_samples() > shape.fft / 2 && shape.sampling_rate > 0;
  if (!sensible) {
    throw std::runtime_error("the manifest's features of sound are beyond what the runner makes");
  }
}

// Triangles whose corners lie at equal distances in mel, each of area 1 over Hz: [mels][bins].
std::vector<double> mel_filters(const SoundShape& shape, int64_t bins) {
  std::vector<double> corners(static_cast<size_t>(shape.mels + 2));
  for (size_t corner = 0; corner < corners.size(); ++corner) {
    corners[corner] = hz_of(mel_of(kHighest) * static_cast<double>(corner) / static_cast<double>(shape.mels + 1));
  }
  const double step = static_cast<double>(shape.sampling_rate / 2) / static_cast<double>(bins - 1);
  std::vector<double> filters;
  for (size_t mel = 0; mel < static_cast<size_t>(shape.mels); ++mel) {
    const double low = corners[mel], middle = corners[mel + 1], high = corners[mel + 2];
    for (int64_t bin = 0; bin < bins; ++bin) {
      const double hz = step * static_cast<double>(bin);
      const double height = std::min((hz - low) / (middle - low), (high - hz) / (high - middle));
      filters.push_back(std::max(0.0, height) * 2.0 / (high - low));
    }
  }
  return filters;
}

}  // namespace

LogMel::LogMel(const SoundShape& shape) : shape_(shape), bins_(shape.fft / 2 + 1) {
  check(shape);
  const double turn = 2.0 * kPi / static_cast<double>(shape.fft);
  for (int64_t at = 0; at < shape.fft; ++at) {
    window_.push_back(0.5 - 0.5 * std::cos(turn * static_cast<double>(at)));
  }
  for (int64_t at = 0; at <= shape.fft / 2; ++at) {
    for (int64_t bin = 0; bin < bins_; ++bin) {
      const double angle = turn * static_cast<double>(at * bin % shape.fft);
      cosines_.push_back(std::cos(angle));
      sines_.push_back(std::sin(angle));
    }
  }
  filters_ = mel_filters(shape, bins_);
}

// The window's samples with its ends mirrored, half an `fft` on each side: every frame then has its place in the middle.
std::vector<double> LogMel::padded(const float* samples, int64_t count) const {
  const int64_t length = shape_.window_samples(), side = shape_.fft / 2;
  std::vector<double> out(static_cast<size_t>(length + 2 * side));
  for (int64_t at = 0; at < static_cast<int64_t>(out.size()); ++at) {
    const int64_t place = std::abs(at - side);
    const int64_t source = place < length ? place : 2 * (length - 1) - place;
    out[static_cast<size_t>(at)] = source < count ? samples[source] : 0.0;
  }
  return out;
}

// The cosine of a sample and of its mirror image around the frame's middle are equal, and their sines opposite.
void LogMel::add_frame(const double* samples, int64_t frame, std::vector<double>& logs) const {
  std::vector<double> real(static_cast<size_t>(bins_)), imaginary(static_cast<size_t>(bins_));
  for (int64_t at = 0; at <= shape_.fft / 2; ++at) {
    const int64_t image = shape_.fft - at;
    const double here = window_[static_cast<size_t>(at)] * samples[at];
    const bool paired = at > 0 && at < image;
    const double there = paired ? window_[static_cast<size_t>(image)] * samples[image] : 0.0;
    const double* cosines = &cosines_[static_cast<size_t>(at * bins_)];
    const double* sines = &sines_[static_cast<size_t>(at * bins_)];
    for (int64_t bin = 0; bin < bins_; ++bin) {
      real[static_cast<size_t>(bin)] += (here + there) * cosines[bin];
      imaginary[static_cast<size_t>(bin)] += (here - there) * sines[bin];
    }
  }
  for (int64_t mel = 0; mel < shape_.mels; ++mel) {
    double power = 0;
    for (int64_t bin = 0; bin < bins_; ++bin) {
      const auto b = static_cast<size_t>(bin);
      power += filters_[static_cast<size_t>(mel * bins_) + b] * (real[b] * real[b] + imaginary[b] * imaginary[b]);
    }
    logs[static_cast<size_t>(mel * shape_.frames + frame)] = std::log10(std::max(kLeastPower, power));
  }
}

std::vector<float> LogMel::operator()(const float* samples, int64_t count) const {
  const std::vector<double> sound = padded(samples, count);
  std::vector<double> logs(static_cast<size_t>(shape_.mels * shape_.frames));
  for (int64_t frame = 0; frame < shape_.frames; ++frame) {
    add_frame(&sound[static_cast<size_t>(frame * shape_.hop)], frame, logs);
  }
  // The last of Whisper's frames, which lies behind the window, is not made: it would count as the largest value.
  const double floor = *std::max_element(logs.begin(), logs.end()) - kRange;
  std::vector<float> features;
  features.reserve(logs.size());
  for (const double log : logs) {
    features.push_back(static_cast<float>((std::max(log, floor) + 4.0) / 4.0));
  }
  return features;
}

}  // namespace edgec::runner
