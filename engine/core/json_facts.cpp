#include "json_facts.h"

#include <fstream>

#include "plain_failure.h"

namespace edgec::engine {
namespace {

// As bundle/folder.py has it for a manifest.
constexpr size_t kMostBytes = size_t{64} << 20;

// Read an object; `other` reads the value of a field that is not among `fields`.
template <typename Other>
void read_object(JsonText& json, size_t wanted, const JsonFields& fields, bool null_is_absent, const Other& other) {
  std::vector<bool> seen(fields.size());
  json.object([&](const std::string& name) {
    const auto is_named = [&](const auto& field) { return name == field.first; };
    const auto field = std::find_if(fields.begin(), fields.end(), is_named);
    if (field == fields.end()) return other();
    if (null_is_absent && json.null()) return;
    seen[static_cast<size_t>(field - fields.begin())] = true;
    field->second();
  });
  for (size_t i = 0; i < wanted; ++i) {
    if (!seen[i]) json.fail("does not state \"" + fields[i].first + "\"");
  }
}

}  // namespace

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text, piece(size_t{1} << 16, '\0');
  while (file && text.size() <= kMostBytes) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<size_t>(file.gcount()));
  }
  if (!file.eof() || text.size() > kMostBytes) {
    const std::string why = text.size() > kMostBytes ? " is too large" : " cannot be read";
    throw Failure(EDGEC_FAILED, "not an edgec bundle: " + path + why);
  }
  return text;
}

JsonText manifest_json(std::string_view text) { return JsonText(text, "the bundle's manifest.json", EDGEC_FAILED); }

void read_fields(JsonText& json, size_t wanted, const JsonFields& fields) {
  read_object(json, wanted, fields, false, [&] { json.refuse("an unknown field"); });
}

void read_some_fields(JsonText& json, size_t wanted, const JsonFields& fields) {
  read_object(json, wanted, fields, true, [&] { json.skip(); });
}

std::function<void()> natural_into(JsonText& json, int64_t& value, int64_t most, int64_t least) {
  return [&json, &value, most, least] {
    value = json.natural(most);
    if (value < least) json.refuse("a number that is too small");
  };
}

std::function<void()> text_into(JsonText& json, std::string& value, size_t most_letters) {
  return [&json, &value, most_letters] {
    value = json.string();
    if (value.size() > most_letters) json.refuse("a text that is too long");
  };
}

}  // namespace edgec::engine
