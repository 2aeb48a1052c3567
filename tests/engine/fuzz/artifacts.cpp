// Opens and runs damaged copies of an artifact, each in its own process: one flipped bit, or a cut.
//
//     artifacts ARTIFACT SCRATCH SEED COUNT TOKENS ROWS
//
// One line per case on stdout: PLACE BIT VERDICT; the bit may be "cut", the verdict is "ran", "refused", "signal N" or
// "exit N".
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "edgec/engine.h"

extern "C" void edgec_register_standard_operators();

namespace {

constexpr int kRefused = 3;
constexpr unsigned kSeconds = 60;
// Most damage goes here: the instructions come first, then weights, where a bit is only another number.
constexpr size_t kProgram = 24 << 10;

std::vector<int64_t> counted(int64_t first, size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

bool forward(EdgecSession* session, size_t count, int64_t start, size_t rows) {
  const auto tokens = counted(0, count), positions = counted(start, count), wanted = counted(0, rows);
  return edgec_session_forward(
             session, tokens.data(), positions.data(), count, wanted.data(), rows, nullptr, 0) == EDGEC_OK;
}

int run(const char* path, size_t tokens, size_t rows) {
  alarm(kSeconds);  // A damaged program may run forever.
  edgec_register_standard_operators();
  edgec_threads(1);
  EdgecModel* model = edgec_model_open(path, "forward", nullptr, nullptr, 0);
  EdgecSession* session = model == nullptr ? nullptr : edgec_session_open(model, 0, nullptr, 0);
  const bool fine = session != nullptr && forward(session, tokens, 0, rows) &&
                    forward(session, 1, static_cast<int64_t>(tokens), 1);
  edgec_session_close(session);
  edgec_model_close(model);
  return fine ? 0 : kRefused;
}

std::string verdict(int status) {
  if (WIFSIGNALED(status)) {
    return "signal " + std::to_string(WTERMSIG(status));
  }
  const int code = WEXITSTATUS(status);
  return code == 0 ? "ran" : code == kRefused ? "refused" : "exit " + std::to_string(code);
}

}  // namespace

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string intact{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string scratch = arguments[2];
  std::mt19937_64 random(std::stoull(arguments[3]));
  const size_t tokens = std::stoull(arguments[5]), rows = std::stoull(arguments[6]);
  for (uint64_t left = std::stoull(arguments[4]); left > 0; --left) {
    std::string damaged = intact;
    const size_t end = random() % 4 ? std::min(intact.size(), kProgram) : intact.size();
    const size_t place = random() % end, bit = random() % 8;
    const bool cut = random() % 16 == 0;
    cut ? damaged.resize(place) : void(damaged[place] = static_cast<char>(damaged[place] ^ 1 << bit));
    std::ofstream(scratch, std::ios::binary) << damaged;
    const pid_t child = fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stdout) == nullptr) {
        _exit(1);
      }
      std::exit(run(scratch.c_str(), tokens, rows));
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%zu %s %s\n", place, cut ? "cut" : std::to_string(bit).c_str(), verdict(status).c_str());
    std::fflush(stdout);
  }
  return 0;
}
