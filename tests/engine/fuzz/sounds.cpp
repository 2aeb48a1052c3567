// Damaged WAV files, manifests and generation configs for what the runner reads before it transcribes.
//
//     sounds FOLDER SEED COUNT      FOLDER holds an intact bundle that hears and sound.wav; they are left damaged
//
// Prints "sounds N refused M".
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "audio/sound_file.h"
#include "audio/audio_facts.h"
#include "audio/timestamps.h"

namespace {

std::mt19937_64 random_bits;

size_t below(size_t end) {
  return end == 0 ? 0 : random_bits() % end;
}

std::string text_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Most damage goes to the first bytes of a sound, where its format and sizes are.
std::string damaged(std::string text, size_t header) {
  for (size_t changes = below(4) + 1; changes > 0 && !text.empty(); --changes) {
    const size_t at = below(below(8) == 0 ? text.size() : std::min(header, text.size()));
    switch (below(5)) {
      case 0: text.resize(at); break;
      case 1: text.erase(at, below(16)); break;
      case 2: text.insert(at, text.substr(below(text.size()), below(64))); break;
      case 3: text.replace(at, std::min<size_t>(4, text.size() - at), "\xff\xff\xff\xff"); break;
      default: text[at] = static_cast<char>(random_bits());
    }
  }
  return text;
}

bool refuses_sound(const std::string& intact, const std::string& folder) {
  constexpr size_t kHeader = 44;
  write(folder + "/sound.wav", damaged(intact, kHeader));
  try {
    const std::vector<float> samples = edgec::runner::read_sound(folder + "/sound.wav", 16'000);
    const edgec::runner::SoundShape shape{16'000, 8, 20, 400, 160};
    const edgec::runner::LogMel features(shape);
    features(samples.data(), std::min(static_cast<int64_t>(samples.size()), shape.window_samples()));
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

bool refuses_facts(const std::string& manifest, const std::string& config, const std::string& folder) {
  const bool first = below(2) == 0;
  write(folder + "/manifest.json", first ? damaged(manifest, manifest.size()) : manifest);
  write(folder + "/generation_config.json", first ? config : damaged(config, config.size()));
  try {
    const edgec::runner::AudioFacts facts = edgec::runner::read_audio_facts(folder);
    if (facts.sound.features) edgec::runner::LogMel{*facts.sound.features};
    const std::vector<float> logits(64);
    std::vector<float> masked = facts.choice.masked(logits.data(), static_cast<int64_t>(logits.size()), true);
    const auto stamps = facts.timestamps(std::nullopt);
    std::vector<int64_t> said;
    for (int64_t token = 0; token < 8; ++token) {
      if (stamps) stamps->apply(masked, said);
      said.push_back(static_cast<int64_t>(below(128)));
      edgec::runner::cut_window(said, stamps, 16'000, facts.sound.step_samples);
    }
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

}  // namespace

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  const std::string sound = text_in(folder + "/sound.wav"), manifest = text_in(folder + "/manifest.json"),
                    config = text_in(folder + "/generation_config.json");
  random_bits.seed(std::stoull(arguments[2]));
  const uint64_t sounds = std::stoull(arguments[3]);
  uint64_t refused = 0;
  for (uint64_t each = 0; each < sounds; ++each) {
    refused += below(2) == 0 ? refuses_sound(sound, folder) : refuses_facts(manifest, config, folder);
  }
  std::printf("sounds %llu refused %llu\n", static_cast<unsigned long long>(sounds), static_cast<unsigned long long>(refused));
  return 0;
}
