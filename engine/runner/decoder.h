// Greedy decoding and scoring over the C interface, timed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "edgec/engine.h"
#include "shown_images.h"

namespace edgec::runner {

struct Generated {
  std::vector<int64_t> tokens;
  double ttft_ms = 0;            // wall, from the call to the first token
  std::vector<double> token_ms;  // wall, from each token to the next
  double cpu_ms = 0;             // of all threads, over the whole call
  std::string text;              // of a structured text that is whole; empty otherwise
  std::string finish;            // why a structured text ended: "complete", "eos" or "length"; empty otherwise
};

// A text that was given rather than chosen.
struct Scored {
  std::vector<int64_t> likeliest;  // the most likely token after each of its tokens
  std::vector<double> logprobs;    // of each token but the first after those before it, nats
};

// One call of a decoder: tokens start .. start + size - 1, with logits of the last `rows` of them.
struct FedCall {
  int64_t start;
  int64_t size;
  int64_t rows;
};

// A session on a model, from an empty cache each time. Functions throw std::runtime_error.
class Decoder {
 public:
  // `context` 0: unknown, positions are not checked.
  Decoder(EdgecModel* model, int64_t context, bool profile);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Add an adapter's file from now on; `base`: the sha256 of the model's artifact.
  void use_adapter(const std::string& path, const std::string& base);
  // Show the images with every prompt from now on; they must outlive the decoder.
  void show(const ShownImages& images) { images_ = &images; }
  // Continue `prompt` greedily by `count` tokens, past any end-of-sequence token; or by at most so many, constrained by a
  // structure, where one is given.
  Generated generate(const std::vector<int64_t>& prompt, int64_t count, const EdgecStructure* structure = nullptr);
  // What follows each of `tokens`, and how likely each is; logits are written to `logits` as float32 rows unless it is
  // null.
  Scored score(const std::vector<int64_t>& tokens, std::FILE* logits);
  // Feed the first `count` tokens at once, as a prompt, and the others one by one, as decoding does; returns the most
  // likely next token after each of those steps; logits as above.
  std::vector<int64_t> replay(const std::vector<int64_t>& tokens, int64_t count, std::FILE* logits);
  // Make these calls, in order; returns the most likely next token after each of their rows; logits as above.
  std::vector<int64_t> feed(
      const std::vector<int64_t>& tokens, const std::vector<FedCall>& calls, std::FILE* logits);
  // Times per instruction since the last call; empty without profile.
  std::string profile();

 private:
  struct Logits {
    const float* data;
    int64_t vocabulary;
  };
  Logits forward(const int64_t* tokens, int64_t count, int64_t start, const std::vector<int64_t>& rows);
  // Logits of the last token.
  Logits prefill(const int64_t* prompt, int64_t length);
  void check_context(int64_t end) const;
  // A new prompt, with its images where there are some.
  void place(const std::vector<int64_t>& prompt);

  EdgecModel* model_;
  EdgecSession* session_;
  EdgecModelInfo info_{};
  int64_t context_;
  const ShownImages* images_ = nullptr;
};

}  // namespace edgec::runner
