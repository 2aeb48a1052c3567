// edgec-runner: a decoder's artifact on this device, without Python. See options.cpp for its command line.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "affinity.h"
#include "bundle_facts.h"
#include "decoder.h"
#include "edgec/engine.h"
#include "events.h"
#include "memory_use.h"
#include "options.h"
#include "page_cache.h"
#include "shown_images.h"
#include "audio/audio_model.h"
#include "audio/sound_file.h"
#include "audio/transcription.h"
#include "core/allowed_cores.h"

// Registers edgec's kernels (engine/kernels) as the operators of ExecuTorch's LLM library.
extern "C" void edgec_register_standard_operators();

namespace edgec::runner {
namespace {

constexpr int kUserError = 1;
constexpr size_t kPathLetters = 4096;
// The largest number in a request, of milliseconds or tokens.
constexpr int64_t kMostNumber = INT32_MAX;
constexpr double kNsPerMs = 1e6;
constexpr const char* kPackedNames[] = {"in memory", "written", "mapped"};

using ModelHandle = std::unique_ptr<EdgecModel, decltype(&edgec_model_close)>;
using StructureHandle = std::unique_ptr<EdgecStructure, decltype(&edgec_structure_close)>;
using FileHandle = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

// Make the folder of --packed and its parents where they do not exist.
void make_packed_folder(const std::filesystem::path& folder) {
  std::error_code refusal;
  std::filesystem::create_directories(folder, refusal);
  if (!std::filesystem::is_directory(folder)) {
    throw std::runtime_error("--packed: the folder " + folder.string() + " cannot be made: " + refusal.message());
  }
}

// Replace --bundle by the artifact and the facts in its manifest; returns the artifact's sha256, empty without --bundle.
std::string resolve_bundle(Options& options) {
  if (options.bundle.empty()) {
    const auto folder = std::filesystem::path(options.packed).parent_path();
    if (!folder.empty()) {
      make_packed_folder(folder);
    }
    return "";
  }
  if (!options.packed.empty()) {
    make_packed_folder(options.packed);
  }
  const BundleFacts facts = read_bundle_facts(options.bundle);
  options.artifact = facts.artifact;
  options.context = facts.context;
  char path[kPathLetters] = "";
  if (!options.packed.empty() &&
      edgec_packed_path(options.packed.c_str(), facts.sha256.c_str(), path, sizeof path) < 0) {
    throw std::runtime_error("the path of --packed is too long");
  }
  options.packed = path;
  return facts.sha256;
}

// Bring the program and its packed weights into the state that --page-cache names.
void prepare_pages(const Options& options) {
  for (const std::string& path : {options.artifact, options.packed}) {
    if (options.page_cache == "drop") {
      drop_pages(path);
    } else if (options.page_cache == "fill") {
      fill_pages(path);
    }
  }
}

std::string share_text(double share) {
  return share < 0 ? "null" : std::to_string(share);
}

ModelHandle opened(const Options& options) {
  edgec_register_standard_operators();
  prepare_pages(options);
  const double share = resident_share(options.artifact);
  const int64_t baseline = rss_bytes();
  const int threads = edgec_threads(options.threads);
  char error[kPathLetters] = "";
  const char* packed = options.packed.empty() ? nullptr : options.packed.c_str();
  ModelHandle model(
      edgec_model_open(options.artifact.c_str(), options.method.c_str(), packed, error, sizeof error),
      edgec_model_close);
  if (model == nullptr) {
    throw std::runtime_error(error);
  }
  EdgecModelInfo info{};
  edgec_model_info(model.get(), &info);
  if ((info.max_tokens == 0) != options.embed) {
    throw std::runtime_error(
        options.embed ? "--embed: the method is a decoder's, and makes no vectors of texts"
                      : "the method is not a decoder's: forward_rows(tokens, positions, logit_index)");
  }
  std::cout << "{\"event\":\"loaded\",\"load_ms\":" << static_cast<double>(info.load_ns) / kNsPerMs
            << ",\"packed\":\"" << kPackedNames[info.packed] << "\",\"packed_bytes\":" << info.packed_bytes
            << ",\"state_bytes\":" << info.state_bytes << ",\"scratch_bytes\":" << info.scratch_bytes
            << ",\"resident_share\":" << share_text(share) << ",\"baseline_rss_bytes\":" << baseline
            << ",\"linear_kernel\":\"" << edgec_linear_kernel() << "\",\"linear_kernels\":\"" << edgec_linear_kernels()
            << "\",\"threads\":" << threads << ",\"cpus\":" << list(edgec::engine::allowed_cores())
            << ",\"peak_rss_bytes\":" << peak_rss_bytes()
            << ",\"anonymous_bytes\":" << anonymous_bytes() << "}" << std::endl;
  return model;
}

// The compiled schema that --schema names, or null.
StructureHandle opened_structure(const Options& options) {
  StructureHandle structure(nullptr, edgec_structure_close);
  if (!options.schema.empty()) {
    char error[kPathLetters] = "";
    const std::string folder = options.bundle + "/schemas/", grammar = folder + options.schema + ".grammar";
    structure.reset(
        edgec_structure_open(grammar.c_str(), (folder + "vocabulary.bin").c_str(), error, sizeof error));
    if (structure == nullptr) throw std::runtime_error(error);
  }
  return structure;
}

// Reads the next word of a request as a number.
int64_t take_number(std::istringstream& words) {
  std::string word;
  if (!(words >> word)) {
    throw std::runtime_error("the request lacks a number");
  }
  return read_number(word, kMostNumber);
}

std::vector<int64_t> take_tokens(std::istringstream& words) {
  std::string rest;
  std::getline(words, rest);
  return read_tokens(rest);
}

// COUNT, then so many times START SIZE ROWS.
std::vector<FedCall> take_calls(std::istringstream& words) {
  std::vector<FedCall> calls;
  for (int64_t left = take_number(words); left > 0; --left) {
    const int64_t start = take_number(words), size = take_number(words), rows = take_number(words);
    calls.push_back({start, size, rows});
  }
  return calls;
}

void serve(Decoder& decoder, const std::string& line, std::FILE* logits, const EdgecStructure* structure) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "generate") {
    const int64_t count = take_number(words);
    generate(decoder, take_tokens(words), count, structure);
  } else if (verb == "sustain") {
    const int64_t ms = take_number(words), count = take_number(words);
    sustain(decoder, ms, take_tokens(words), count, structure);
  } else if (verb == "score") {
    score(decoder, take_tokens(words), logits);
  } else if (verb == "replay") {
    const int64_t count = take_number(words);
    replay(decoder, take_tokens(words), count, logits);
  } else if (verb == "feed") {
    const std::vector<FedCall> calls = take_calls(words);
    feed(decoder, calls, take_tokens(words), logits);
  } else if (verb == "pause") {
    std::this_thread::sleep_for(std::chrono::milliseconds(take_number(words)));
  } else {
    throw std::runtime_error("a request is \"generate COUNT ID ...\", \"score ID ...\", \"replay COUNT ID ...\", "
                             "\"feed COUNT START SIZE ROWS ... ID ...\", \"pause MS\" or "
                             "\"sustain MS COUNT ID ...\", not \"" + shortened(line) + "\"");
  }
}

// Transcribe the sound of --audio; facts and sound are checked before anything is loaded.
void run_audio(const Options& options) {
  const AudioFacts facts = read_audio_facts(options.bundle);
  std::vector<float> samples = read_sound(options.audio, facts.sound.sampling_rate);
  const AudioFrontend frontend(facts.sound);
  TranscriptionRequest asked;
  asked.language = options.language;
  asked.timestamps = options.timestamps;
  asked.new_tokens = options.new_tokens;
  asked.prompt = options.tokens;
  if (!asked.language.empty()) facts.language(asked.language);
  stay_on(options.cpus);  // Before the thread pool starts: its threads inherit it.
  const ModelHandle forward = opened(options);
  AudioModel model(options.artifact, options.packed, Method(forward.get(), options.profile));
  Transcription sound(facts, frontend, model, std::move(samples), asked);
  transcribe(sound);
  print_profile(model.profile());
}

// Make the vector of --tokens, or of the text in each request.
void run_encoder(const Options& options) {
  stay_on(options.cpus);  // Before the thread pool starts: its threads inherit it.
  const ModelHandle model = opened(options);
  TextEncoder encoder(model.get(), options.profile);
  const auto make = [&](const std::vector<int64_t>& tokens) {
    embed(encoder, tokens);
    print_profile(encoder.profile());
  };
  if (!options.tokens.empty()) return make(options.tokens);
  for (std::string line, verb; std::getline(std::cin, line);) {
    std::istringstream words(line);
    if (!(words >> verb) || verb != "embed") {
      throw std::runtime_error("a request is \"embed ID ID ...\", not \"" + shortened(line) + "\"");
    }
    make(take_tokens(words));
  }
}

// The vision of a bundle that has some, with the images of --image; else null.
std::unique_ptr<ShownImages> opened_images(const Options& options) {
  if (!options.bundle.empty() && has_part(options.bundle, "audio_language")) {
    throw std::runtime_error("the runner makes no rows of sound: this bundle's model, which has audio, runs in Python");
  }
  if (options.bundle.empty() || !has_part(options.bundle, "vision_language")) {
    if (!options.images.empty()) throw std::runtime_error("--image: the bundle's model has no vision");
    return nullptr;
  }
  return std::make_unique<ShownImages>(options.bundle, options.artifact, options.packed, options.images);
}

void run(Options options) {
  const std::string sha256 = resolve_bundle(options);
  if (!options.audio.empty()) return run_audio(options);
  if (options.embed) return run_encoder(options);
  stay_on(options.cpus);  // Before the thread pool starts: its threads inherit it.
  const std::unique_ptr<ShownImages> images = opened_images(options);
  const StructureHandle structure = opened_structure(options);
  const ModelHandle model = opened(options);
  Decoder decoder(model.get(), options.context, options.profile);
  if (!options.adapter.empty()) {
    decoder.use_adapter(options.adapter, sha256);
  }
  if (images != nullptr) {
    images->encode();
    decoder.show(*images);
  }
  const FileHandle logits(options.logits.empty() ? nullptr : std::fopen(options.logits.c_str(), "wb"), std::fclose);
  if (!options.logits.empty() && logits == nullptr) {
    throw std::runtime_error("--logits cannot be written: " + options.logits);
  }
  if (options.tokens.empty()) {
    for (std::string line; std::getline(std::cin, line);) {
      serve(decoder, line, logits.get(), structure.get());
      print_profile(decoder.profile());
    }
    return;
  }
  if (options.score) {
    score(decoder, options.tokens, logits.get());
  } else {
    generate(decoder, options.tokens, std::max<int64_t>(options.new_tokens, 1), structure.get());
  }
  print_profile(decoder.profile());
}

}  // namespace
}  // namespace edgec::runner

int main(int count, char** arguments) {
  // A file size limit then fails a write, which the engine answers by packing in memory, instead of killing the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const edgec::runner::Options options = edgec::runner::read_options(count, arguments);
    if (options.help) {
      std::cout << edgec::runner::kUsage;
      return 0;
    }
    edgec::runner::run(options);
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "error: " << failure.what() << "\n";
    return edgec::runner::kUserError;
  }
}
