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

// Read FOLDER/manifest.json (canonical_text.h; edgec refuses others). Throws std::runtime_error when a fact is missing.
BundleFacts read_bundle_facts(const std::string& folder);

}  // namespace edgec::runner
