// edgec-runner: a decoder's artifact on this device, without Python. See options.cpp for its command line.
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bundle_facts.h"
#include "decoder.h"
#include "engine/c_api.h"
#include "memory_use.h"
#include "options.h"

// Operators of ExecuTorch's LLM library, by edgec's kernels (devices/runner/kernels).
extern "C" void edgec_register_standard_operators();

namespace edgec::runner {
namespace {

constexpr int kUserError = 1;
constexpr size_t kPathLetters = 4096;
constexpr double kNsPerMs = 1e6;
constexpr const char* kPackedNames[] = {"in memory", "written", "mapped"};

using ModelHandle = std::unique_ptr<EdgecModel, decltype(&edgec_model_close)>;
using FileHandle = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

template <typename Number>
std::string list(const std::vector<Number>& numbers) {
  std::ostringstream text;
  for (size_t index = 0; index < numbers.size(); ++index) {
    text << (index ? "," : "") << numbers[index];
  }
  return "[" + text.str() + "]";
}

// Replace --bundle by what its manifest says.
void resolve_bundle(Options& options) {
  if (options.bundle.empty()) {
    return;
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
}

ModelHandle opened(const Options& options) {
  edgec_register_standard_operators();
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
  if (info.max_tokens == 0) {
    throw std::runtime_error("the method is no decoder's: forward(tokens, positions, logit_index)");
  }
  std::cout << "{\"event\":\"loaded\",\"load_ms\":" << static_cast<double>(info.load_ns) / kNsPerMs
            << ",\"packed\":\"" << kPackedNames[info.packed] << "\",\"packed_bytes\":" << info.packed_bytes
            << ",\"state_bytes\":" << info.state_bytes << ",\"scratch_bytes\":" << info.scratch_bytes
            << ",\"threads\":" << threads << ",\"peak_rss_bytes\":" << peak_rss_bytes()
            << ",\"anonymous_bytes\":" << anonymous_bytes() << "}" << std::endl;
  return model;
}

std::string memory_fields() {
  return ",\"peak_rss_bytes\":" + std::to_string(peak_rss_bytes()) +
         ",\"anonymous_bytes\":" + std::to_string(anonymous_bytes());
}

void generate(Decoder& decoder, const std::vector<int64_t>& prompt, int64_t count) {
  const Generated result = decoder.generate(prompt, count);
  std::cout << "{\"event\":\"generated\",\"prompt_tokens\":" << prompt.size() << ",\"tokens\":" << list(result.tokens)
            << ",\"ttft_ms\":" << result.ttft_ms << ",\"token_ms\":" << list(result.token_ms)
            << ",\"cpu_ms\":" << result.cpu_ms << memory_fields() << "}" << std::endl;
}

void score(Decoder& decoder, const std::vector<int64_t>& tokens, std::FILE* logits) {
  const std::vector<int64_t> found = decoder.score(tokens, logits);
  std::cout << "{\"event\":\"scored\",\"top1\":" << list(found) << memory_fields() << "}" << std::endl;
}

void print_profile(Decoder& decoder) {
  const std::string profile = decoder.profile();
  if (!profile.empty()) {
    std::cout << "{\"event\":\"profile\"," << profile.substr(1) << std::endl;
  }
}

void serve(Decoder& decoder, const std::string& line, std::FILE* logits) {
  std::istringstream words(line);
  std::string verb, rest, count = "0";
  words >> verb;
  if (verb != "generate" && verb != "score") {
    throw std::runtime_error("a request is \"generate COUNT ID ...\" or \"score ID ...\", not \"" + line + "\"");
  }
  if (verb == "generate") {
    words >> count;
  }
  std::getline(words, rest);
  if (verb == "generate") {
    generate(decoder, read_tokens(rest), read_tokens(count).at(0));
  } else {
    score(decoder, read_tokens(rest), logits);
  }
}

void run(Options options) {
  resolve_bundle(options);
  const ModelHandle model = opened(options);
  Decoder decoder(model.get(), options.context, options.profile);
  const FileHandle logits(options.logits.empty() ? nullptr : std::fopen(options.logits.c_str(), "wb"), std::fclose);
  if (!options.logits.empty() && logits == nullptr) {
    throw std::runtime_error("--logits cannot be written: " + options.logits);
  }
  if (options.tokens.empty()) {
    for (std::string line; std::getline(std::cin, line);) {
      serve(decoder, line, logits.get());
      print_profile(decoder);
    }
    return;
  }
  if (options.score) {
    score(decoder, options.tokens, logits.get());
  } else {
    generate(decoder, options.tokens, options.new_tokens);
  }
  print_profile(decoder);
}

}  // namespace
}  // namespace edgec::runner

int main(int count, char** arguments) {
  // A file size limit then fails a write, which the engine answers by packing in memory, instead of killing the process.
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
