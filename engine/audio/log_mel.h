// Log-mel features of sound, as Whisper's feature extractor makes them.
#pragma once

#include <cstdint>
#include <vector>

namespace edgec::runner {

// How features are made; SoundInfo of a bundle's manifest.
struct SoundShape {
  int64_t sampling_rate = 0;
  int64_t mels = 0;
  int64_t frames = 0;
  int64_t fft = 0;
  int64_t hop = 0;

  int64_t window_samples() const { return frames * hop; }
};

// samples -> windows of `fft` samples every `hop` -> power spectrum -> mel filters -> log10, clipped 8 below its largest
// value -> (x + 4) / 4. The spectrum is summed as the definition says, in float64, from tables of sines: no FFT.
class LogMel {
 public:
  // Throws std::runtime_error where the shape makes no sense or takes too much memory.
  explicit LogMel(const SoundShape& shape);

  // Features [mels, frames] of at most frames * hop samples; silence follows to the window's end.
  std::vector<float> operator()(const float* samples, int64_t count) const;

 private:
  std::vector<double> padded(const float* samples, int64_t count) const;
  void add_frame(const double* samples, int64_t frame, std::vector<double>& logs) const;

  SoundShape shape_;
  int64_t bins_;
  std::vector<double> window_;   // [fft]
  std::vector<double> cosines_;  // [fft / 2 + 1][bins]
  std::vector<double> sines_;    // likewise
  std::vector<double> filters_;  // [mels][bins]
};

}  // namespace edgec::runner
