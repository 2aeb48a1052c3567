// The fields of JSON files in a bundle, which are not trusted: each is read by a function of its own, within limits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json_text.h"

namespace edgec::engine {

// Letters of a text of which no limit of its own is known.
constexpr size_t kMostFactLetters = 4096;

// A bundle's JSON file; no more than 64 MiB are read. Throws Failure (EDGEC_FAILED) where it cannot be read.
std::string file_text(const std::string& path);

// The reader of a bundle's manifest.json, whose failures have the status EDGEC_FAILED.
JsonText manifest_json(std::string_view text);

// An object's fields by name, each with the function that reads its value.
using JsonFields = std::vector<std::pair<std::string, std::function<void()>>>;

// Read an object that has no other fields; the first `wanted` must be there.
void read_fields(JsonText& json, size_t wanted, const JsonFields& fields);

// Read some fields of an object and skip all others; null is as if the field were absent. The first `wanted` must be there.
void read_some_fields(JsonText& json, size_t wanted, const JsonFields& fields);

// The function that reads a whole number from `least` to `most` into `value`.
std::function<void()> natural_into(JsonText& json, int64_t& value, int64_t most, int64_t least = 0);

// The function that reads a text into `value`.
std::function<void()> text_into(JsonText& json, std::string& value, size_t most_letters = kMostFactLetters);

// One of several names; their order is that of the enumeration.
template <typename Choice>
Choice read_choice(JsonText& json, std::initializer_list<const char*> names) {
  const std::string name = json.string();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) json.refuse("an unknown name");
  return static_cast<Choice>(found - names.begin());
}

}  // namespace edgec::engine
