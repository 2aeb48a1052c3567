// Damaged files of compiled schemas and vocabularies, and texts that are held to what is left of them.
//
//     structures GRAMMAR VOCABULARY FOLDER SEED COUNT
//
// The two files are intact; damaged copies are written into FOLDER. Prints "structures N refused M".
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "edgec/engine.h"

namespace {

constexpr size_t kTokens = 600, kSteps = 12;
std::mt19937_64 random_bits;

size_t below(size_t end) {
  return end == 0 ? 0 : random_bits() % end;
}

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string damaged(std::string text) {
  for (size_t changes = below(3) + 1; changes > 0 && !text.empty(); --changes) {
    const size_t at = below(text.size());
    switch (below(5)) {
      case 0: text.resize(at); break;
      case 1: text.insert(at, std::string(below(9), '\xff')); break;
      case 2: text.replace(at, 4, std::string("\xff\xff\xff\x7f", 4)); break;
      default: text[at] = static_cast<char>(random_bits());
    }
  }
  return text;
}

// Whether the files are refused; what opens is followed for some steps, which may fail but not crash.
bool refuses(const std::string& grammar, const std::string& vocabulary) {
  EdgecStructure* structure = edgec_structure_open(grammar.c_str(), vocabulary.c_str(), nullptr, 0);
  if (structure == nullptr) return true;
  EdgecText* text = edgec_text_open(structure, static_cast<int64_t>(below(20)) + 1, nullptr, 0);
  for (size_t step = 0; text != nullptr && step < kSteps; ++step) {
    std::vector<float> logits(kTokens);
    for (float& value : logits) value = static_cast<float>(below(1000));
    if (edgec_text_mask(text, logits.data(), below(2) == 0 ? kTokens : below(kTokens), nullptr, 0) != EDGEC_OK) break;
    size_t best = 0;
    for (size_t token = 1; token < kTokens; ++token) best = logits[token] > logits[best] ? token : best;
    edgec_text_take(text, below(8) == 0 ? static_cast<int64_t>(random_bits()) : static_cast<int64_t>(best), nullptr, 0);
    const char* bytes = nullptr;
    edgec_structure_token(structure, static_cast<int64_t>(random_bits()), &bytes);
  }
  edgec_structure_close(structure);
  edgec_text_close(text);
  return false;
}

}  // namespace

int main(int, char** arguments) {
  const std::string grammar = content(arguments[1]), vocabulary = content(arguments[2]), folder = arguments[3];
  const std::string first = folder + "/damaged.grammar", second = folder + "/damaged.bin";
  random_bits.seed(std::stoull(arguments[4]));
  const uint64_t cases = std::stoull(arguments[5]);
  uint64_t refused = 0;
  for (uint64_t one = 0; one < cases; ++one) {
    const bool hits_grammar = below(2) == 0;
    std::ofstream(first, std::ios::binary) << (hits_grammar ? damaged(grammar) : grammar);
    std::ofstream(second, std::ios::binary) << (hits_grammar ? vocabulary : damaged(vocabulary));
    refused += refuses(first, second) ? 1 : 0;
  }
  std::printf("structures %llu refused %llu\n", static_cast<unsigned long long>(cases), static_cast<unsigned long long>(refused));
  return 0;
}
