#include "bundle_facts.h"

#include <map>
#include <stdexcept>
#include <string_view>

#include "core/json_facts.h"
#include "core/number_text.h"

namespace edgec::runner {
namespace {

using engine::JsonText;

constexpr size_t kDigestLetters = 64, kMostFiles = size_t{1} << 16;

// The sha256 of a bundle's files by their paths.
using Digests = std::map<std::string, std::string>;

// Whether a path stays inside the bundle and is written without escapes.
bool stays_inside(std::string_view path) {
  const std::string parts = "/" + std::string(path) + "/";
  return !path.empty() && path[0] != '/' && path.find('\\') == std::string_view::npos &&
         path.find('\0') == std::string_view::npos && parts.find("/../") == std::string::npos;
}

bool is_sha256(const std::string& digest) {
  return digest.size() == kDigestLetters && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void read_file(JsonText& json, Digests& digests) {
  std::string path, digest;
  engine::read_some_fields(
      json, 2, {{"path", engine::text_into(json, path)}, {"sha256", engine::text_into(json, digest, kDigestLetters)}});
  if (digests.size() == kMostFiles) json.refuse("too many files");
  if (!digests.emplace(path, digest).second) json.refuse("a file twice");
}

}  // namespace

BundleFacts read_bundle_facts(const std::string& folder) {
  const std::string path = folder + "/manifest.json", text = engine::file_text(path);
  JsonText json = engine::manifest_json(text);
  std::string artifact;
  Digests digests;
  int64_t context = 0;
  const auto limits = [&] {
    engine::read_some_fields(json, 1, {{"context", engine::natural_into(json, context, kMostTokens)}});
  };
  engine::read_some_fields(
      json, 0,
      {{"artifact", engine::text_into(json, artifact)},
       {"files", [&] { json.array([&] { read_file(json, digests); }); }},
       {"limits", limits}});
  json.end();
  if (!stays_inside(artifact) || !is_sha256(digests[artifact])) {
    throw std::runtime_error("the manifest lists no artifact: " + path);
  }
  return {folder + "/" + artifact, digests[artifact], context};
}

bool has_part(const std::string& folder, const std::string& name) {
  const std::string text = engine::file_text(folder + "/manifest.json");
  JsonText json = engine::manifest_json(text);
  bool found = false;
  const auto part = [&] {
    found = true;
    json.skip();
  };
  engine::read_some_fields(json, 0, {{name, part}});
  json.end();
  return found;
}

}  // namespace edgec::runner
