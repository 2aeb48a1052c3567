#include "events.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <limits>
#include <optional>

#include "edgec/engine.h"
#include "memory_use.h"

namespace edgec::runner {
namespace {

std::string memory_fields() {
  return ",\"peak_rss_bytes\":" + std::to_string(peak_rss_bytes()) +
         ",\"anonymous_bytes\":" + std::to_string(anonymous_bytes());
}

// Numbers with the digits that tell any two of this type apart; JSON has no others than finite ones.
template <typename Number>
std::string exact_list(const std::vector<Number>& numbers) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<Number>::max_digits10);
  for (size_t index = 0; index < numbers.size(); ++index) {
    text << (index ? "," : "");
    std::isfinite(numbers[index]) ? text << numbers[index] : text << "null";
  }
  return "[" + text.str() + "]";
}

// A text in valid UTF-8, as every structured text is, as a string of JSON.
std::string quoted(const std::string& text) {
  constexpr unsigned char kFirstPrinted = 0x20;
  std::string out = "\"";
  for (const char one : text) {
    if (static_cast<unsigned char>(one) < kFirstPrinted) {
      char code[8] = "";
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(one));
      out += code;
    } else {
      out += one == '"' || one == '\\' ? std::string{'\\', one} : std::string(1, one);
    }
  }
  return out + "\"";
}

std::string structured_fields(const Generated& result) {
  if (result.finish.empty()) return "";
  const std::string text = result.finish == "length" ? "null" : quoted(result.text);
  return ",\"finish\":\"" + result.finish + "\",\"text\":" + text;
}

void print_segment(const Transcription& sound, const TranscriptSegment& segment, const TranscriptionTimes& before) {
  const TranscriptionTimes& times = sound.times();
  std::cout << "{\"event\":\"transcribed\",\"start_s\":" << segment.start_s << ",\"end_s\":" << segment.end_s
            << ",\"prompt\":" << list(sound.prompt()) << ",\"tokens\":" << list(segment.tokens)
            << ",\"features_ms\":" << times.features_ms - before.features_ms
            << ",\"encode_ms\":" << times.encode_ms - before.encode_ms
            << ",\"write_ms\":" << times.write_ms - before.write_ms << memory_fields() << "}" << std::endl;
}

}  // namespace

void generate(
    Decoder& decoder, const std::vector<int64_t>& prompt, int64_t count, const EdgecStructure* structure) {
  const Generated result = decoder.generate(prompt, count, structure);
  std::cout << "{\"event\":\"generated\",\"prompt_tokens\":" << prompt.size() << ",\"tokens\":" << list(result.tokens)
            << ",\"ttft_ms\":" << result.ttft_ms << ",\"token_ms\":" << list(result.token_ms)
            << ",\"cpu_ms\":" << result.cpu_ms << structured_fields(result) << memory_fields() << "}" << std::endl;
}

void sustain(
    Decoder& decoder, int64_t ms, const std::vector<int64_t>& prompt, int64_t count, const EdgecStructure* structure) {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::milli> limit(static_cast<double>(ms));
  for (auto passed = limit * 0; passed < limit;) {
    const Generated result = decoder.generate(prompt, count, structure);
    passed = std::chrono::steady_clock::now() - start;
    std::cout << "{\"event\":\"generated\",\"tokens\":[" << result.tokens.back() << "],\"ttft_ms\":" << result.ttft_ms
              << ",\"token_ms\":" << list(result.token_ms) << ",\"elapsed_ms\":" << passed.count() << "}" << std::endl;
  }
}

void score(Decoder& decoder, const std::vector<int64_t>& tokens, std::FILE* logits) {
  const Scored result = decoder.score(tokens, logits);
  std::cout << "{\"event\":\"scored\",\"top1\":" << list(result.likeliest)
            << ",\"logprobs\":" << exact_list(result.logprobs) << memory_fields() << "}" << std::endl;
}

void replay(Decoder& decoder, const std::vector<int64_t>& tokens, int64_t count, std::FILE* logits) {
  const std::vector<int64_t> likeliest = decoder.replay(tokens, count, logits);
  std::cout << "{\"event\":\"replayed\",\"top1\":" << list(likeliest) << memory_fields() << "}" << std::endl;
}

void feed(
    Decoder& decoder, const std::vector<FedCall>& calls, const std::vector<int64_t>& tokens, std::FILE* logits) {
  const std::vector<int64_t> likeliest = decoder.feed(tokens, calls, logits);
  std::cout << "{\"event\":\"fed\",\"top1\":" << list(likeliest) << memory_fields() << "}" << std::endl;
}

void embed(TextEncoder& encoder, const std::vector<int64_t>& tokens) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<float> vector = encoder.embed(tokens);
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  std::cout << "{\"event\":\"embedded\",\"tokens\":" << tokens.size() << ",\"vector\":" << exact_list(vector)
            << ",\"embed_ms\":" << passed.count() << memory_fields() << "}" << std::endl;
}

void transcribe(Transcription& sound) {
  TranscriptionTimes before;
  while (sound.step()) {
    // With timestamps a window may hold several sentences; the first of them has its times.
    while (const std::optional<TranscriptSegment> segment = sound.take()) {
      print_segment(sound, *segment, before);
      before = sound.times();
    }
  }
}

void print_profile(const std::string& profile) {
  if (!profile.empty()) {
    std::cout << "{\"event\":\"profile\"," << profile.substr(1) << std::endl;
  }
}

}  // namespace edgec::runner
