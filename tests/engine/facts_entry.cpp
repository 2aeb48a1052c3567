// What the C++ readers take from a bundle's JSON files, as a line of words; "error: ..." where they refuse.
//
//     facts_entry bundle FOLDER      the artifact's path, its sha256 and the context
//     facts_entry vision FOLDER      context, height, width, rows, image token, what sees ahead, the grid
//     facts_entry audio FOLDER       sampling rate, window, context, first token, languages, tokens that end a text
#include <cstdio>
#include <exception>
#include <string>

#include "audio/audio_facts.h"
#include "core/json_facts.h"
#include "runner/bundle_facts.h"
#include "vision/vision_facts.h"

using namespace edgec::runner;

namespace {

std::string number(int64_t value) { return " " + std::to_string(value); }

std::string of_bundle(const std::string& folder) {
  const BundleFacts facts = read_bundle_facts(folder);
  return facts.artifact + " " + facts.sha256 + number(facts.context);
}

std::string of_vision(const std::string& folder) {
  const VisionFacts facts = read_vision_facts(edgec::engine::file_text(folder + "/manifest.json"));
  const RowGrid grid = facts.grid.value_or(RowGrid{0, 0});
  return number(facts.context) + number(facts.height) + number(facts.width) + number(facts.rows) +
         number(facts.image_token) + number(static_cast<int64_t>(facts.ahead)) + number(grid.high) + number(grid.wide);
}

std::string of_audio(const std::string& folder) {
  const AudioFacts facts = read_audio_facts(folder);
  std::string said = number(facts.sound.sampling_rate) + number(facts.sound.window_samples) + number(facts.context) +
                     number(facts.start);
  for (const auto& [name, token] : facts.languages) said += " " + name + number(token);
  for (const int64_t token : facts.choice.eos) said += number(token);
  return said;
}

}  // namespace

int main(int, char** arguments) {
  const std::string kind = arguments[1], folder = arguments[2];
  try {
    const std::string said = kind == "bundle" ? of_bundle(folder) : kind == "vision" ? of_vision(folder) : of_audio(folder);
    std::printf("%s\n", said.c_str());
  } catch (const std::exception& failure) {
    std::printf("error: %s\n", failure.what());
  }
  return 0;
}
