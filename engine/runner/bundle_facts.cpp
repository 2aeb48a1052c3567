#include "bundle_facts.h"

#include <stdexcept>
#include <string_view>

#include "core/canonical_text.h"
#include "options.h"

namespace edgec::runner {
namespace {

constexpr size_t kDigestLetters = 64;

// Whether a path stays inside the bundle and is written without escapes.
bool stays_inside(std::string_view path) {
  const std::string parts = "/" + std::string(path) + "/";
  return !path.empty() && path[0] != '/' && path.find('\\') == std::string_view::npos &&
         parts.find("/../") == std::string::npos;
}

std::string digest_of(std::string_view manifest, std::string_view name) {
  const std::string_view entry = after(manifest, "\"path\": \"" + std::string(name) + "\",");
  const std::string digest(until(next(entry, "\"sha256\": \""), "\""));
  const bool hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex && digest.size() == kDigestLetters ? digest : "";
}

int64_t context_of(std::string_view manifest) {
  constexpr std::string_view mark = "\n    \"context\": ";
  for (auto rest = after(manifest, mark); !rest.empty(); rest = after(rest, mark)) {
    const std::string_view digits = until(rest, ",");
    if (!digits.empty() && !next(rest.substr(digits.size() + 1), "\"logit_rows\"").empty()) {
      return read_number(std::string(digits), kMostTokens);
    }
  }
  return 0;
}

}  // namespace

BundleFacts read_bundle_facts(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const std::string text = text_of(path);
  const std::string name(until(after(text, "\n  \"artifact\": \""), "\""));
  const BundleFacts facts{folder + "/" + name, digest_of(text, name), context_of(text)};
  if (!stays_inside(name) || facts.sha256.empty()) {
    throw std::runtime_error("the manifest lists no artifact: " + path);
  }
  return facts;
}

}  // namespace edgec::runner
