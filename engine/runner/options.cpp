#include "options.h"

#include <getopt.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace edgec::runner {

const char* const kUsage =
    "edgec-runner: run a decoder's artifact without Python; results are JSON, one object per line.\n"
    "\n"
    "  edgec-runner --bundle NAME.edgec --packed FOLDER --tokens 1,2,3 --new-tokens 16\n"
    "  edgec-runner --model FILE --packed FILE --threads 2 < requests\n"
    "\n"
    "  --bundle DIR       a bundle; its weights are packed into a file of --packed's folder\n"
    "  --model FILE       a program alone; its weights are packed into the file --packed\n"
    "  --packed PATH      packed weights, written once and mapped later; without it they are packed in memory.\n"
    "                     A missing folder is made\n"
    "  --method NAME      entry point (forward_rows, else forward)\n"
    "  --threads N        CPU threads (the device's fast cores)\n"
    "  --cpus LIST        stay on these CPUs, e.g. 4,5,6,7 (all that the system allows)\n"
    "  --context N        positions of the KV cache, for --model; a bundle states its own\n"
    "  --tokens IDS       the prompt; without it, requests are read from stdin:\n"
    "                       generate COUNT ID ID ...\n"
    "                       score ID ID ...\n"
    "                       pause MILLISECONDS\n"
    "                       sustain MILLISECONDS COUNT ID ID ...   (generate repeatedly for so long)\n"
    "                       replay COUNT ID ID ...   (COUNT at once, the others one by one)\n"
    "                       feed COUNT START SIZE ROWS ... ID ID ...   (COUNT calls, as they are given)\n"
    "  --new-tokens N     tokens to generate greedily (1)\n"
    "  --audio FILE.wav   transcribe speech with a bundle of Whisper's kind, window by window; --new-tokens then limits\n"
    "                     each window (to the context), and --tokens replaces the decoder's first tokens\n"
    "  --language NAME    that is spoken, such as en (detected in the first window)\n"
    "  --timestamps       also say when: an event for each sentence, and windows that begin where the last one ended\n"
    "  --image FILE.ppm   an image of every prompt, with a bundle that takes images; several times for several. The prompt's ids\n"
    "                     have an image token for each of their rows\n"
    "  --schema NAME      hold generated text to a schema of the bundle (edgec export --schema NAME=FILE); it ends\n"
    "                     where it is whole, and is closed within --new-tokens\n"
    "  --score            the most likely token after each prompt token instead, teacher-forced, and how likely each is\n"
    "  --embed            the vector of --tokens, by a sentence encoder; on stdin a request is\n"
    "                       embed ID ID ...\n"
    "  --page-cache WHAT  drop or fill: forget or read the program and its packed weights before they are loaded\n"
    "  --adapter FILE     add what edgec adapter wrote for this bundle; needs --bundle\n"
    "  --logits FILE      also write the scored logits, float32, row by row\n"
    "  --profile          also print the time of each instruction\n";

namespace {

constexpr int64_t kMostThreads = 1024;

using Setter = std::function<void(Options&, const char*)>;

struct Option {
  const char* name;
  int argument;
  Setter set;
};

const std::vector<Option>& table() {
  static const std::vector<Option> options = {
      {"bundle", required_argument, [](Options& to, const char* text) { to.bundle = text; }},
      {"model", required_argument, [](Options& to, const char* text) { to.artifact = text; }},
      {"packed", required_argument, [](Options& to, const char* text) { to.packed = text; }},
      {"adapter", required_argument, [](Options& to, const char* text) { to.adapter = text; }},
      {"method", required_argument, [](Options& to, const char* text) { to.method = text; }},
      {"threads", required_argument,
       [](Options& to, const char* text) { to.threads = static_cast<int>(read_number(text, kMostThreads)); }},
      {"cpus", required_argument, [](Options& to, const char* text) { to.cpus = read_tokens(text); }},
      {"context", required_argument,
       [](Options& to, const char* text) { to.context = read_number(text, kMostTokens); }},
      {"tokens", required_argument, [](Options& to, const char* text) { to.tokens = read_tokens(text); }},
      {"new-tokens", required_argument,
       [](Options& to, const char* text) { to.new_tokens = read_number(text, kMostTokens); }},
      {"audio", required_argument, [](Options& to, const char* text) { to.audio = text; }},
      {"language", required_argument, [](Options& to, const char* text) { to.language = text; }},
      {"timestamps", no_argument, [](Options& to, const char*) { to.timestamps = true; }},
      {"image", required_argument, [](Options& to, const char* text) { to.images.emplace_back(text); }},
      {"schema", required_argument, [](Options& to, const char* text) { to.schema = text; }},
      {"page-cache", required_argument, [](Options& to, const char* text) { to.page_cache = text; }},
      {"logits", required_argument, [](Options& to, const char* text) { to.logits = text; }},
      {"score", no_argument, [](Options& to, const char*) { to.score = true; }},
      {"embed", no_argument, [](Options& to, const char*) { to.embed = true; }},
      {"profile", no_argument, [](Options& to, const char*) { to.profile = true; }},
      {"help", no_argument, [](Options& to, const char*) { to.help = true; }},
  };
  return options;
}

// Whether a text is a schema's name, which cannot lead out of the bundle.
bool is_name(const std::string& text) {
  constexpr size_t kMostLetters = 64;
  const auto is_letter = [](char one) { return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z'); };
  const auto fits = [&](char one) { return is_letter(one) || (one >= '0' && one <= '9') || one == '_' || one == '-'; };
  return !text.empty() && text.size() <= kMostLetters && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

Options read_options(int count, char** arguments) {
  std::vector<option> known;
  for (const Option& entry : table()) {
    known.push_back({entry.name, entry.argument, nullptr, 0});
  }
  known.push_back({nullptr, 0, nullptr, 0});
  Options options;
  int index = 0;
  opterr = 0;
  for (int status; (status = getopt_long(count, arguments, "", known.data(), &index)) != -1;) {
    if (status == '?') {
      throw std::runtime_error(std::string("unknown or incomplete option ") + arguments[optind - 1]);
    }
    table()[static_cast<size_t>(index)].set(options, optarg);
  }
  if (!options.page_cache.empty() && options.page_cache != "drop" && options.page_cache != "fill") {
    throw std::runtime_error("--page-cache is drop or fill");
  }
  if (!options.audio.empty() && (options.bundle.empty() || options.score || !options.adapter.empty())) {
    throw std::runtime_error("--audio needs --bundle, and goes with neither --score nor --adapter");
  }
  if (!options.images.empty() && (options.bundle.empty() || !options.audio.empty())) {
    throw std::runtime_error("--image needs --bundle, and does not go with --audio");
  }
  if (!options.language.empty() && (options.audio.empty() || !options.tokens.empty())) {
    throw std::runtime_error("--language needs --audio, without --tokens");
  }
  if (options.timestamps && options.audio.empty()) {
    throw std::runtime_error("--timestamps needs --audio");
  }
  if (!options.help && (options.bundle.empty() == options.artifact.empty() || optind != count)) {
    throw std::runtime_error("give either --bundle or --model, and no other arguments");
  }
  if (!options.adapter.empty() && options.bundle.empty()) {
    throw std::runtime_error("--adapter needs --bundle, which says what the adapter must have been made for");
  }
  const bool decodes = options.score || !options.audio.empty() || !options.images.empty() || !options.adapter.empty() ||
                       !options.schema.empty() || !options.logits.empty() || options.new_tokens != 0;
  if (options.embed && decodes) {
    throw std::runtime_error("--embed goes with --tokens alone: a sentence encoder writes no text");
  }
  const bool constrained = !options.bundle.empty() && !options.score && options.audio.empty() && is_name(options.schema);
  if (!options.schema.empty() && !constrained) {
    throw std::runtime_error("--schema is the name of a schema in --bundle, and goes with neither --score nor --audio");
  }
  return options;
}

}  // namespace edgec::runner
