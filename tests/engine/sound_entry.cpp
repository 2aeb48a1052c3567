// What the runner reads of a sound, and the features that it makes of it, as float32 on stdout.
//
//     sound_entry FILE.wav RATE                         samples
//     sound_entry FILE.wav RATE MELS FRAMES FFT HOP     features of the first window
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "audio/sound_file.h"

namespace {

void print(const std::vector<float>& values) {
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::vector<float> samples = edgec::runner::read_sound(words[1], std::stoll(words[2]));
    if (count == 3) {
      print(samples);
      return 0;
    }
    const edgec::runner::SoundShape shape{
        std::stoll(words[2]), std::stoll(words[3]), std::stoll(words[4]), std::stoll(words[5]), std::stoll(words[6])};
    const edgec::runner::LogMel features(shape);
    print(features(samples.data(), std::min(static_cast<int64_t>(samples.size()), shape.window_samples())));
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "error: %s\n", failure.what());
    return 1;
  }
}
