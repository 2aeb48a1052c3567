// Opens and runs an artifact whose matrices an earlier load laid out in a file, damaged each time, in its own process.
//
//     laid_out ARTIFACT PACKED LAID_OUT SEED COUNT TOKENS ROWS
//
// PACKED is the path that loads are given, LAID_OUT the file beside it, intact. Half of the damage hits its index, the
// rest any byte; now and then the file is cut. Its size where it is not cut, its times and its inode stay what they were.
// One line per case on stdout: PLACE BIT VERDICT; the bit may be "cut", the verdict is "ran", "signal N" or "exit N".
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "edgec/engine.h"

namespace {

constexpr unsigned kSeconds = 60;
// The footer and the entries of a small model lie in the last bytes.
constexpr size_t kIndex = 1 << 10;

int run(const char* artifact, const char* packed, size_t count, size_t rows) {
  alarm(kSeconds);
  edgec_threads(1);
  EdgecModel* model = edgec_model_open(artifact, "forward", packed, nullptr, 0);
  EdgecSession* session = model == nullptr ? nullptr : edgec_session_open(model, 0, nullptr, 0);
  std::vector<int64_t> tokens(count), wanted(rows);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::iota(wanted.begin(), wanted.end(), 0);
  const bool fine = session != nullptr && edgec_session_forward(session, tokens.data(), tokens.data(), count,
                                                                wanted.data(), rows, nullptr, 0) == EDGEC_OK;
  edgec_session_close(session);
  edgec_model_close(model);
  return fine ? 0 : 1;
}

void put(const char* path, const std::string& content, const struct stat& before) {
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const bool written = file >= 0 && ftruncate(file, static_cast<off_t>(content.size())) == 0 &&
                       pwrite(file, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  if (!written || futimens(file, times) != 0) std::abort();
  close(file);
}

}  // namespace

int main(int, char** arguments) {
  const char *artifact = arguments[1], *packed = arguments[2], *laid_out = arguments[3];
  struct stat before {};
  if (stat(laid_out, &before) != 0) return 1;
  std::ifstream file(laid_out, std::ios::binary);
  const std::string intact{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::mt19937_64 random(std::stoull(arguments[4]));
  for (uint64_t left = std::stoull(arguments[5]); left > 0; --left) {
    std::string damaged = intact;
    const size_t span_end = random() % 2 ? std::min(intact.size(), kIndex) : intact.size();
    const size_t place = intact.size() - 1 - random() % span_end, bit = random() % 8;
    const bool cut = random() % 16 == 0;
    cut ? damaged.resize(place) : void(damaged[place] = static_cast<char>(damaged[place] ^ 1 << bit));
    put(laid_out, damaged, before);
    const pid_t child = fork();
    if (child == 0) _exit(run(artifact, packed, std::stoull(arguments[6]), std::stoull(arguments[7])));
    int status = 0;
    waitpid(child, &status, 0);
    const std::string code = std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    const std::string verdict = WIFSIGNALED(status) ? "signal " + code : code == "0" ? "ran" : "exit " + code;
    std::printf("%zu %s %s\n", place, cut ? "cut" : std::to_string(bit).c_str(), verdict.c_str());
    std::fflush(stdout);
  }
  return 0;
}
