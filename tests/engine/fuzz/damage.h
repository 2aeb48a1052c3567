// Damage to a text of words and lines: flipped bits, cuts, lines repeated or left out, words replaced.
#pragma once

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

inline const char* const kNumbers[] = {"0",  "1",       "-1",                  "2",   "3",    "7",      "8", "16",
                                       "33", "1000000", "9223372036854775807", "nan", "int8", "float32"};

using Random = std::mt19937;

inline size_t below(Random& random, size_t count) { return count == 0 ? 0 : random() % count; }

inline std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char letter : text) {
    if (letter == ' ' || letter == '\n' || letter == '=') {
      words.push_back(std::string(1, letter));
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words;
}

inline void replace_word(std::string& text, Random& random) {
  std::vector<std::string> words = words_of(text);
  words[below(random, words.size()) / 2 * 2] = random() % 2 ? kNumbers[below(random, std::size(kNumbers))]
                                                          : words[below(random, words.size()) / 2 * 2];
  text.clear();
  for (const std::string& word : words) text += word;
}

inline void repeat_or_drop_line(std::string& text, Random& random) {
  const size_t start = text.rfind('\n', below(random, text.size())) + 1;
  const size_t end = std::min(text.find('\n', start), text.size() - 1) + 1;
  if (end <= start) return;
  const std::string line = text.substr(start, end - start);
  if (random() % 2) {
    text.insert(below(random, 2) ? end : start, line);
  } else {
    text.erase(start, end - start);
  }
}

inline std::string damaged(std::string text, Random& random) {
  for (size_t rounds = below(random, 4); rounds-- > 0 && !text.empty();) {
    switch (random() % 4) {
      case 0:
        text[below(random, text.size())] ^= static_cast<char>(1 << random() % 7);
        break;
      case 1:
        text.resize(below(random, text.size()));
        break;
      case 2:
        repeat_or_drop_line(text, random);
        break;
      default:
        replace_word(text, random);
    }
  }
  return text;
}
