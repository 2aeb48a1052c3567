#include "bundle_facts.h"

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace edgec::runner {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("this is no bundle: " + path + " cannot be read");
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string first_group(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

std::string escaped(const std::string& name) {
  return std::regex_replace(name, std::regex(R"([.+()\[\]{}^$|\\*?])"), R"(\$&)");
}

}  // namespace

BundleFacts read_bundle_facts(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const std::string text = text_of(path);
  const std::string name = first_group(text, "\n  \"artifact\": \"([^\"\\\\]+)\"");
  const std::string entry = "\"path\": \"" + escaped(name) + "\",\\s*\"sha256\": \"([0-9a-f]{64})\"";
  const std::string context = first_group(text, "\n    \"context\": ([0-9]+),\\s*\"logit_rows\"");
  const BundleFacts facts{folder + "/" + name, first_group(text, entry), context.empty() ? 0 : std::stoll(context)};
  if (name.empty() || facts.sha256.empty()) {
    throw std::runtime_error("the manifest lists no artifact: " + path);
  }
  return facts;
}

}  // namespace edgec::runner
