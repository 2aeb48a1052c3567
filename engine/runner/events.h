// What the runner says: each event is a line of JSON on standard output, which devices/runner/events.py reads.
#pragma once

#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "decoder.h"
#include "audio/transcription.h"
#include "text_encoder.h"

namespace edgec::runner {

template <typename Number>
std::string list(const std::vector<Number>& numbers) {
  std::ostringstream text;
  for (size_t index = 0; index < numbers.size(); ++index) {
    text << (index ? "," : "") << numbers[index];
  }
  return "[" + text.str() + "]";
}

// Continue a prompt, constrained by a structure where one is given, and say what came.
void generate(
    Decoder& decoder, const std::vector<int64_t>& prompt, int64_t count, const EdgecStructure* structure);

// Generate repeatedly until `ms` have passed; each event says when it ended.
void sustain(
    Decoder& decoder, int64_t ms, const std::vector<int64_t>& prompt, int64_t count, const EdgecStructure* structure);

// The likeliest token after each: of a text, of one whose first `count` come at once, of calls as they are given.
void score(Decoder& decoder, const std::vector<int64_t>& tokens, std::FILE* logits);
void replay(Decoder& decoder, const std::vector<int64_t>& tokens, int64_t count, std::FILE* logits);
void feed(
    Decoder& decoder, const std::vector<FedCall>& calls, const std::vector<int64_t>& tokens, std::FILE* logits);

// Make the vector of a text and say it.
void embed(TextEncoder& encoder, const std::vector<int64_t>& tokens);

// Transcribe a sound without timestamps, an event for each window.
void transcribe(Transcription& sound);

// Say a profile, where one was asked for.
void print_profile(const std::string& profile);

}  // namespace edgec::runner
