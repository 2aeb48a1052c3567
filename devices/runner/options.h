// The runner's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace edgec::runner {

struct Options {
  std::string bundle;    // folder NAME.edgec; or
  std::string artifact;  // a program alone
  std::string packed;    // file of packed weights, or the folder for them with a bundle; empty: packed in memory
  std::string method = "forward";
  std::string page_cache;  // "drop" or "fill": what happens to the artifact and its packed weights before the load
  std::string adapter;  // file that `edgec adapter` wrote; empty: none
  std::string schema;  // name of a schema in the bundle that generated texts are held to; empty: none
  std::string logits;  // file that scored logits go to, float32; empty: nowhere
  std::vector<int64_t> tokens;
  std::string audio;     // a WAV file to transcribe
  std::string language;  // that is spoken in it; empty: detected
  int64_t new_tokens = 0;  // 0: one after a prompt, as many as fit in a window of sound
  int64_t context = 0;
  std::vector<int64_t> cpus;  // CPUs to stay on; empty: all that the system allows
  int threads = 0;
  bool score = false;
  bool profile = false;
  bool help = false;
};

// Throws std::runtime_error with the reason when the arguments make no sense.
Options read_options(int count, char** arguments);
// The most tokens that a context may have.
constexpr int64_t kMostTokens = INT32_MAX;

// An untrusted text as errors show it: only the beginning of a long one.
std::string shortened(const std::string& text);
// Reads a whole number from 0 to `most`. Throws std::runtime_error where the text is not one.
int64_t read_number(const std::string& text, int64_t most = INT64_MAX);
// Reads token ids separated by commas or spaces. Throws std::runtime_error where one is not a number.
std::vector<int64_t> read_tokens(const std::string& text);
extern const char* const kUsage;

}  // namespace edgec::runner
