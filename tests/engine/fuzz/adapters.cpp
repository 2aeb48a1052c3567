// Damaged adapter files, and files that lie under a right checksum, for the engine's reader.
//
//     adapters ARTIFACT BASE FOLDER SCRATCH SEED COUNT       FOLDER holds files 0, 1, ...; 0 is intact
//
// Prints "adapters N refused M".
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "edgec/engine.h"

extern "C" void edgec_register_standard_operators();

namespace {

std::mt19937_64 random_bits;

size_t below(size_t end) {
  return end == 0 ? 0 : random_bits() % end;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Most bytes of these files are the header's, where the reader decides.
std::string damaged(std::string text) {
  for (size_t changes = below(3) + 1; changes > 0; --changes) {
    const size_t at = below(text.size()), length = below(text.size() - at);
    switch (below(6)) {
      case 0: text.resize(at); break;
      case 1: text.erase(at, length % 64); break;
      case 2: text.insert(at, text.substr(below(text.size()), length % 512)); break;
      case 3: text.insert(at, std::string(below(8) == 0 ? 1 << 16 : 9, "[{\"\\9,:-u \n"[below(11)])); break;
      case 4: text.replace(at, length % 20, "99999999999999999999"); break;
      default: if (!text.empty()) text[at] = static_cast<char>(random_bits());
    }
  }
  return text;
}

// Whether the file was refused; one that was not must do what an adapter does.
bool refuses(EdgecModel* model, EdgecSession* session, const std::string& path, const char* base) {
  char error[256] = "";
  EdgecAdapter* adapter = edgec_adapter_read(model, path.c_str(), base, error, random_bits() % sizeof error);
  if (adapter == nullptr) {
    return true;
  }
  const int64_t tokens[] = {3, 4}, positions[] = {0, 1}, rows[] = {1};
  const bool works = edgec_session_adapter(session, adapter, error, sizeof error) == EDGEC_OK &&
                     edgec_session_forward(session, tokens, positions, 2, rows, 1, error, sizeof error) == EDGEC_OK;
  edgec_adapter_close(adapter);
  if (!works) {
    std::printf("an accepted adapter fails: %s\n", error);
    std::exit(1);
  }
  return false;
}

}  // namespace

int main(int, char** arguments) {
  edgec_register_standard_operators();
  edgec_threads(1);
  const std::string folder = arguments[3], scratch = arguments[4];
  char error[512] = "";
  EdgecModel* model = edgec_model_open(arguments[1], "forward", nullptr, error, sizeof error);
  EdgecSession* session = edgec_session_open(model, 0, error, sizeof error);
  if (session == nullptr) {
    std::printf("%s\n", error);
    return 1;
  }
  std::vector<std::string> files;
  for (std::string path; std::ifstream(path = folder + "/" + std::to_string(files.size())).good();) {
    files.push_back(content(path));
    if (refuses(model, session, path, arguments[2]) != (files.size() > 1)) {
      std::printf("%s is judged wrongly\n", path.c_str());
      return 1;
    }
  }
  random_bits.seed(std::stoull(arguments[5]));
  const uint64_t count = std::stoull(arguments[6]);
  uint64_t refused = 0;
  for (uint64_t tried = 0; tried < count; ++tried) {
    std::ofstream(scratch, std::ios::binary) << damaged(files[below(files.size())]);
    refused += refuses(model, session, scratch, arguments[2]);
  }
  edgec_session_close(session);
  edgec_model_close(model);
  std::printf("adapters %llu refused %llu\n", static_cast<unsigned long long>(count), static_cast<unsigned long long>(refused));
  return 0;
}
