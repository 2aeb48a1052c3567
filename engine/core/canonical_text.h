// Reads single values out of JSON that edgec wrote: manifest.json and generation_config.json of a bundle are canonical
// (sorted keys, one per line, two spaces of indentation), so lines are looked for instead of parsing JSON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "number_text.h"

namespace edgec::runner {

inline constexpr const char* kSpaces = " \n\r\t";
// As bundle/folder.py has it for a manifest.
inline constexpr size_t kMostLetters = size_t{64} << 20;

// A file's whole text; no more of a longer file is read.
inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text, piece(size_t{1} << 16, '\0');
  while (file && text.size() <= kMostLetters) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<size_t>(file.gcount()));
  }
  if (!file.eof() || text.size() > kMostLetters) {
    const std::string why = text.size() > kMostLetters ? " is too large" : " cannot be read";
    throw std::runtime_error("not an edgec bundle: " + path + why);
  }
  return text;
}

// The text after the first `mark`; empty without one.
inline std::string_view after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

// The text up to the first character that is one of `ends`; empty without one.
inline std::string_view until(std::string_view text, std::string_view ends) {
  const size_t at = text.find_first_of(ends);
  return at == std::string_view::npos ? std::string_view() : text.substr(0, at);
}

// The text after leading spaces and `mark`; empty where `mark` does not come next.
inline std::string_view next(std::string_view text, std::string_view mark) {
  const size_t at = text.find_first_not_of(kSpaces);
  const bool here = at != std::string_view::npos && text.substr(at, mark.size()) == mark;
  return here ? text.substr(at + mark.size()) : std::string_view();
}

// The lines of an object whose fields lie `depth` levels deep; empty without it.
inline std::string_view object_of(std::string_view text, const std::string& name, size_t depth) {
  const std::string indent = "\n" + std::string(2 * depth, ' ');
  const std::string_view rest = after(text, indent + "\"" + name + "\": {");
  const size_t end = rest.find(indent + "}");
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

// The text of a field's value `depth` levels deep, lists with their brackets; empty where there is none, or null.
inline std::string value_of(std::string_view text, const std::string& name, size_t depth) {
  const std::string_view rest = after(text, "\n" + std::string(2 * depth, ' ') + "\"" + name + "\": ");
  const bool list = !rest.empty() && rest[0] == '[';
  const size_t end = list ? rest.find(']') + 1 : rest.find_first_of(",\n");
  const std::string found(rest.substr(0, list && end == 0 ? 0 : end));
  return found == "null" ? "" : found;
}

// A whole number. Throws std::runtime_error where the field has none.
inline int64_t number_of(std::string_view text, const std::string& name, size_t depth) {
  const std::string found = value_of(text, name, depth);
  if (found.empty()) {
    throw std::runtime_error("the bundle does not state \"" + name + "\"");
  }
  return read_number(found, kMostTokens);
}

// The whole numbers of a list, or the only one of a field that is a number; none where it is absent.
inline std::vector<int64_t> numbers_of(std::string_view text, const std::string& name, size_t depth) {
  std::string found = value_of(text, name, depth);
  found.erase(std::remove_if(found.begin(), found.end(), [](char c) { return c == '[' || c == ']'; }), found.end());
  return read_tokens(found);
}

}  // namespace edgec::runner
