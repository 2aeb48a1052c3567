// What the runner makes of images, without an engine.
//
//     vision_entry scaled FILE.ppm WIDTH HEIGHT HOW [4]     its bytes in another size; 4: from pixels of four bytes
//     vision_entry tiles BUNDLE FILE.ppm IMAGES             float32 tiles
//     vision_entry text BUNDLE PROMPT WIDTH HEIGHT ...      the prompt with the texts of images of these sizes
//     vision_entry places BUNDLE ID ...                     rows, span_end, mrope, the next one and the kept tokens as JSON
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "core/json_facts.h"
#include "runner/image_file.h"
#include "vision/positions.h"
#include "vision/preparation.h"
#include "vision/texts.h"
#include "vision/tiles.h"

using namespace edgec::runner;

namespace {

template <typename Value>
void write(const std::vector<Value>& values) {
  std::fwrite(values.data(), sizeof(Value), values.size(), stdout);
}

struct VisionInput {
  explicit VisionInput(const std::string& bundle)
      : facts(read_vision_facts(edgec::engine::file_text(bundle + "/manifest.json"))),
        preparation(read_preparation(edgec::engine::file_text(bundle + "/images/preparation.json"))),
        maker(preparation, facts) {}

  VisionFacts facts;
  Preparation preparation;
  TileMaker maker;
};

void scaled(const std::vector<std::string>& words) {
  const Picture image = read_image(words[1]);
  const PixelSize size{std::stoll(words[2]), std::stoll(words[3])};
  const auto how = static_cast<Resampling>(std::stoi(words[4]));
  if (words.size() < 6) {
    write(resample(image.view(), size, how).bytes);
    return;
  }
  // The same pixels with a fourth byte, in lines that end with more.
  const int64_t line = image.size.width * 4 + 5;
  std::vector<uint8_t> wide(static_cast<size_t>(line * image.size.height), 77);
  for (int64_t y = 0; y < image.size.height; ++y) {
    for (int64_t at = 0; at < image.size.width * 3; ++at) {
      wide[static_cast<size_t>(y * line + at / 3 * 4 + at % 3)] = image.view().line(y)[at];
    }
  }
  const PixelView view = checked_view({wide.data(), image.size.width, image.size.height, line, 4});
  write(resample(view, size, how).bytes);
}

void tiles(const std::vector<std::string>& words) {
  const VisionInput vision(words[1]);
  const Picture image = read_image(words[2]);
  const std::vector<uint8_t> bytes = vision.maker.tiles(image.view(), std::stoll(words[3]));
  std::vector<float> values(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += vision.maker.tile_bytes()) vision.maker.values(&bytes[at], &values[at]);
  write(values);
}

void text(const std::vector<std::string>& words) {
  const VisionInput vision(words[1]);
  std::vector<std::string> images;
  const auto count = static_cast<int64_t>(words.size() - 3) / 2;
  for (size_t at = 3; at + 1 < words.size(); at += 2) {
    const PixelSize size{std::stoll(words[at]), std::stoll(words[at + 1])};
    images.push_back(image_text(vision.preparation.texts, vision.maker.grid(size, count), vision.facts.rows));
  }
  const std::string made = prompt_text(vision.preparation.texts, words[2], images);
  std::fwrite(made.data(), 1, made.size(), stdout);
}

void print(const char* name, const std::vector<int64_t>& values) {
  std::printf("\"%s\": [", name);
  for (size_t at = 0; at < values.size(); ++at) std::printf("%s%lld", at ? "," : "", static_cast<long long>(values[at]));
  std::printf("], ");
}

void places(const std::vector<std::string>& words) {
  const VisionFacts facts = read_vision_facts(edgec::engine::file_text(words[1] + "/manifest.json"));
  std::vector<int64_t> tokens;
  for (size_t at = 2; at < words.size(); ++at) tokens.push_back(std::stoll(words[at]));
  const PromptPlaces made = prompt_places(facts, tokens.data(), tokens.size());
  std::printf("{");
  print("rows", made.rows);
  print("span_end", made.span_end);
  print("mrope", made.mrope);
  std::printf("\"next\": %lld, ", static_cast<long long>(made.mrope_next));
  std::printf("\"kept\": %lld}\n", static_cast<long long>(made.kept));
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  try {
    if (words[0] == "scaled") scaled(words);
    if (words[0] == "tiles") tiles(words);
    if (words[0] == "text") text(words);
    if (words[0] == "places") places(words);
    return 0;
  } catch (const edgec::engine::Failure& refusal) {
    std::fprintf(stderr, "refused %d: %s\n", refusal.status(), refusal.what());
    return 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "error: %s\n", failure.what());
    return 1;
  }
}
