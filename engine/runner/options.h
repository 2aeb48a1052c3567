// The runner's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/number_text.h"

namespace edgec::runner {

struct Options {
  std::string bundle;    // folder NAME.edgec; or
  std::string artifact;  // a program alone
  std::string packed;    // file of packed weights, or the folder for them with a bundle; empty: packed in memory
  std::string method;  // empty: a decoder's forward_rows, or else forward
  std::string page_cache;  // "drop" or "fill": what happens to the artifact and its packed weights before the load
  std::string adapter;  // file that `edgec adapter` wrote; empty: none
  std::string schema;  // name of a schema in the bundle that constrains generated texts; empty: none
  std::string logits;  // file that scored logits go to, float32; empty: nowhere
  std::vector<int64_t> tokens;
  std::string audio;     // a WAV file to transcribe
  std::string language;  // that is spoken in it; empty: detected
  bool timestamps = false;  // of its sentences
  std::vector<std::string> images;  // PPM files of the prompt's images, in order
  int64_t new_tokens = 0;  // 0: one after a prompt, as many as fit in a window of sound
  int64_t context = 0;
  std::vector<int64_t> cpus;  // CPUs to stay on; empty: all that the system allows
  int threads = 0;
  bool score = false;
  bool embed = false;  // vectors of texts, by a sentence encoder
  bool profile = false;
  bool help = false;
};

// Throws std::runtime_error with the reason when the arguments make no sense.
Options read_options(int count, char** arguments);
extern const char* const kUsage;

}  // namespace edgec::runner
