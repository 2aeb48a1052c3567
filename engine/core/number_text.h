// Reads numbers out of texts that are not trusted.
#pragma once

#include <charconv>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace edgec::runner {

// The most tokens that a context may have.
constexpr int64_t kMostTokens = INT32_MAX;

// An untrusted text as errors show it: only the beginning of a long one.
inline std::string shortened(const std::string& text) {
  constexpr size_t kShownLetters = 80;
  return text.size() <= kShownLetters ? text : text.substr(0, kShownLetters) + "...";
}

// Reads a whole number from 0 to `most`. Throws std::runtime_error where the text is not one.
inline int64_t read_number(const std::string& text, int64_t most = INT64_MAX) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range || (error == std::errc() && value > most)) {
    throw std::runtime_error("\"" + shortened(text) + "\" is more than " + std::to_string(most));
  }
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw std::runtime_error("\"" + shortened(text) + "\" is not a whole number");
  }
  return value;
}

// Reads token ids separated by commas or spaces. Throws std::runtime_error where one is not a number.
inline std::vector<int64_t> read_tokens(const std::string& text) {
  std::string spaced = text;
  for (char& letter : spaced) {
    letter = letter == ',' ? ' ' : letter;
  }
  std::istringstream words(spaced);
  std::vector<int64_t> tokens;
  for (std::string word; words >> word;) {
    tokens.push_back(read_number(word));
  }
  return tokens;
}

}  // namespace edgec::runner
