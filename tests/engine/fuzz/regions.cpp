// Damages the text of a region and, where it is still read, runs it: regions TEXT SEED ROUNDS. All memory has exactly
// the size that the text asks for, so that a sanitizer sees every byte beyond it. Prints how many were read and refused.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "damage.h"
#include "kernels/region/lay_out.h"
#include "kernels/region/region_text.h"

namespace {

constexpr int64_t kMostBytes = 8 << 20;
constexpr int64_t kMostFloats = 4 << 20;
constexpr int kTokens = 3;

// One text with the memory that it names.
struct Trial {
  Random& random;
  std::vector<std::unique_ptr<uint8_t[]>> data;

  const uint8_t* fetch(int64_t bytes) {
    if (bytes > kMostBytes) return nullptr;
    data.emplace_back(new uint8_t[static_cast<size_t>(bytes)]);
    for (int64_t i = 0; i < bytes; i++) data.back()[static_cast<size_t>(i)] = static_cast<uint8_t>(random());
    return data.back().get();
  }

  bool run(const std::string& text) {
    edgec::Region region;
    const auto find = [&](std::string_view, int64_t bytes) { return fetch(bytes); };
    std::vector<edgec::HugeMemory> laid_out;
    if (!edgec::read_region(text, find, region) || !edgec::lay_out(region, laid_out)) return false;
    int64_t floats = 0;
    for (const int64_t width : region.widths) floats += width * kTokens;
    if (floats > kMostFloats) return true;
    std::vector<std::vector<float>> memory;
    const auto rows = [&](int64_t width) {
      return memory.emplace_back(static_cast<size_t>(width * kTokens), 0.5f).data();
    };
    memory.reserve(region.widths.size() * 2);
    std::vector<const float*> inputs;
    std::vector<float*> outputs;
    for (int64_t i = 0; i < region.inputs; i++) inputs.push_back(rows(region.widths[static_cast<size_t>(i)]));
    for (const auto value : region.outputs) outputs.push_back(rows(region.widths[static_cast<size_t>(value)]));
    edgec::run_region(region, inputs, outputs, kTokens);
    return true;
  }
};

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  std::ifstream file(words[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Random random(static_cast<unsigned>(std::atoi(words[2])));
  int read = 0, refused = 0;
  for (int round = std::atoi(words[3]); round > 0; round--) {
    Trial trial{random, {}};
    (trial.run(damaged(text, random)) ? read : refused) += 1;
  }
  std::printf("regions: %d read, %d refused\n", read, refused);
  return 0;
}
