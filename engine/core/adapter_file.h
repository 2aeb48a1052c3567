// The file of an adapter, as `edgec adapter` writes it (docs/adapters.md): read whole, and checked before it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/region/adapter.h"

namespace edgec::engine {

// A module that the adapter changes: y += scale * b (a x), a [rank][width], b [rows][rank], both in the file's bytes.
struct AdapterModule {
  std::string name;
  std::string key;
  int64_t rank = 0, width = 0, rows = 0;
  double scale = 0;
  Numbers a, b;
};

struct AdapterFile {
  std::vector<char> bytes;
  std::string base;    // sha256 of the artifact that it belongs to
  std::string digest;  // sha256 over everything: the adapter's identity
  std::vector<AdapterModule> modules;
};

// The most that a header and a file may have, bytes.
constexpr uint64_t kMostHeader = uint64_t{16} << 20, kMostFile = uint64_t{1} << 32;

// Throws Failure (EDGEC_REFUSED) where the file cannot be read, contradicts itself, or is damaged.
AdapterFile read_adapter_file(const std::string& path);

}  // namespace edgec::engine
