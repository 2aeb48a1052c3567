// Damaged manifests, command lines and numbers for the runner's readers.
//
//     texts FOLDER SEED COUNT      FOLDER holds an intact manifest.json, which is left damaged
//
// Prints "texts N refused M".
#include <getopt.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "runner/bundle_facts.h"
#include "runner/options.h"

namespace {

using edgec::runner::read_bundle_facts;
using edgec::runner::read_options;

std::mt19937_64 random_bits;

size_t below(size_t end) {
  return end == 0 ? 0 : random_bits() % end;
}

std::string damaged(std::string text) {
  for (size_t changes = below(4) + 1; changes > 0; --changes) {
    const size_t at = below(text.size()), length = below(text.size() - at);
    switch (below(6)) {
      case 0: text.resize(at); break;
      case 1: text.erase(at, length % 64); break;
      case 2: text.insert(at, text.substr(below(text.size()), length % 512)); break;
      case 3: text.insert(at, std::string(below(8) == 0 ? 1 << 20 : 70, "0\"9\\{ \n"[below(7)])); break;
      case 4: text.replace(at, length % 8, "99999999999999999999"); break;
      default: if (!text.empty()) text[at] = static_cast<char>(random_bits());
    }
  }
  return text;
}

bool refuses_manifest(const std::string& intact, const std::string& folder) {
  std::ofstream(folder + "/manifest.json", std::ios::binary) << damaged(intact);
  try {
    read_bundle_facts(folder);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

bool refuses_command_line() {
  static const std::vector<std::string> kWords = {
      "--bundle", "--model", "--packed", "--method", "--threads", "--cpus", "--context", "--tokens", "--new-tokens",
      "--score", "--embed", "--profile", "--adapter", "--page-cache", "--logits", "--t", "-x", "--", "=", "", "1,2,3",
      "9223372036854775807", "9223372036854775808", "-1", "+1", " 1", "0x10", "1e9", ",,,,", "drop"};
  std::vector<std::string> words = {"edgec-runner", "--model", "m.pte"};
  for (size_t count = below(8); count > 0; --count) {
    const std::string& word = kWords[below(kWords.size())];
    words.push_back(below(4) == 0 && !word.empty() ? damaged(word) : word);
  }
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  optind = 0;  // glibc: begin anew.
  try {
    read_options(static_cast<int>(words.size()), pointers.data());
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

}  // namespace

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  std::ifstream file(folder + "/manifest.json", std::ios::binary);
  const std::string intact{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  random_bits.seed(std::stoull(arguments[2]));
  const uint64_t texts = std::stoull(arguments[3]);
  uint64_t refused = 0;
  for (uint64_t text = 0; text < texts; ++text) {
    refused += below(2) == 0 ? refuses_manifest(intact, folder) : refuses_command_line();
  }
  std::printf("texts %llu refused %llu\n", static_cast<unsigned long long>(texts), static_cast<unsigned long long>(refused));
  return 0;
}
