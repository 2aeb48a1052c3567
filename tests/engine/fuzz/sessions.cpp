// Several threads, each with its own session, over two models, while another changes the thread pool.
//
//     sessions ARTIFACT ROUNDS           prints "runs N"; fails where a session says something else than alone
//     sessions ARTIFACT ROUNDS shared    two threads on one session, which is not allowed: for a sanitizer to notice
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "edgec/engine.h"

extern "C" void edgec_register_standard_operators();

namespace {

using Logits = std::vector<float>;

constexpr size_t kTokens = 9;
std::atomic<int> runs{0};
std::atomic<int> wrong{0};

Logits forward(EdgecSession* session) {
  std::vector<int64_t> tokens(kTokens), positions(kTokens);
  std::iota(tokens.begin(), tokens.end(), 3);
  std::iota(positions.begin(), positions.end(), 0);
  const int64_t row = kTokens - 1;
  EdgecTensor output{};
  if (edgec_session_forward(session, tokens.data(), positions.data(), kTokens, &row, 1, nullptr, 0) != EDGEC_OK ||
      edgec_session_output(session, 0, &output) != EDGEC_OK) {
    return {};
  }
  runs += 1;
  const auto* data = static_cast<const float*>(output.data);
  return Logits(data, data + output.sizes[2]);
}

// Sessions come and go: a closed one's memory serves the next.
void generate(EdgecModel* model, int rounds, const Logits& wanted) {
  for (int round = 0; round < rounds; ++round) {
    EdgecSession* session = edgec_session_open(model, round % 2, nullptr, 0);
    EdgecModelInfo info{};
    edgec_model_info(model, &info);
    wrong += forward(session) != wanted || forward(session) != wanted || info.sessions < 1;
    edgec_session_profile(session);
    edgec_session_close(session);
  }
}

void share(EdgecModel* model, int rounds) {
  EdgecSession* session = edgec_session_open(model, 0, nullptr, 0);
  const auto use = [&] {
    for (int round = 0; round < rounds; ++round) {
      forward(session);
    }
  };
  std::thread other(use);
  use();
  other.join();
  edgec_session_close(session);
}

}  // namespace

int main(int count, char** arguments) {
  edgec_register_standard_operators();
  edgec_threads(1);
  const int rounds = std::atoi(arguments[2]);
  EdgecModel* models[] = {
      edgec_model_open(arguments[1], "forward", nullptr, nullptr, 0),
      edgec_model_open(arguments[1], "forward", nullptr, nullptr, 0)};
  EdgecSession* alone = edgec_session_open(models[0], 0, nullptr, 0);
  const Logits wanted = forward(alone);
  edgec_session_close(alone);
  if (count > 3) {
    share(models[0], rounds);
    return 0;
  }
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back(generate, models[index % 2], rounds, std::cref(wanted));
  }
  for (int round = 0; round < rounds; ++round) {
    edgec_threads(1 + round % 2);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (EdgecModel* model : models) {
    edgec_model_close(model);
  }
  std::printf("runs %d\n", runs.load());
  return wanted.empty() || wrong > 0;
}
