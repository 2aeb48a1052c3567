// The few facts in a bundle's manifest that are needed to run it.
#pragma once

#include <cstdint>
#include <string>

namespace edgec::runner {

struct BundleFacts {
  std::string artifact;  // path of the program
  std::string sha256;    // of the program
  int64_t context = 0;   // positions the KV cache holds; 0: the manifest states none
};

// Read FOLDER/manifest.json, which is not trusted. Throws std::runtime_error when a fact is missing.
BundleFacts read_bundle_facts(const std::string& folder);

// Whether the manifest describes such a part of the model, e.g. "vision_language". Throws likewise.
bool has_part(const std::string& folder, const std::string& name);

}  // namespace edgec::runner
