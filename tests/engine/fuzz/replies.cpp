// The text core over damaged facts, messages and options: replies, reasoning, streams and samplers.
//
//     replies FACTS MESSAGES SEED COUNT      files of texts, each ended by a zero byte
//
// Prints "replies N refused M malformed K".
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "damage.h"
#include "edgec/text.h"

namespace {

Random chance;
size_t refused = 0, malformed = 0, read_bytes = 0;

std::vector<std::string> texts_in(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> texts;
  for (size_t begin = 0, end; (end = all.find('\0', begin)) != std::string::npos; begin = end + 1) {
    texts.push_back(all.substr(begin, end - begin));
  }
  return texts;
}

const std::string& one_of(const std::vector<std::string>& texts) { return texts[below(chance, texts.size())]; }

// Look at every byte, so that the sanitizer sees one that is not there.
void look(EdgecString text) {
  for (size_t i = 0; i < text.bytes; ++i) read_bytes += text.text[i] == 'a';
}

bool counted(int status) {
  refused += status == EDGEC_REFUSED || status == EDGEC_FAILED;
  malformed += status == EDGEC_MALFORMED_CALL;
  return status == EDGEC_OK;
}

struct Vocabulary {
  std::vector<std::string> words;
  std::string text;
};

int decode(void* context, const int64_t* tokens, size_t count, EdgecString* text) {
  auto* vocabulary = static_cast<Vocabulary*>(context);
  if (below(chance, 5000) == 0) return EDGEC_FAILED;
  vocabulary->text.clear();
  for (size_t i = 0; i < count; ++i) {
    vocabulary->text += vocabulary->words[static_cast<uint64_t>(tokens[i]) % vocabulary->words.size()];
  }
  *text = {vocabulary->text.data(), vocabulary->text.size()};
  return EDGEC_OK;
}

void read_reply(const EdgecNotations* notations, const std::string& message) {
  char error[200];
  const std::string stop = message.substr(below(chance, message.size() + 1), below(chance, 4));
  const EdgecString stops[] = {{stop.data(), stop.size()}, {"END", 3}};
  EdgecReply* reply = edgec_reply_open(notations, stops, below(chance, 3), below(chance, 8) == 0, error, sizeof error);
  if (reply == nullptr) return void(++refused);
  bool fine = true;
  for (size_t begin = 0; fine && begin < message.size();) {
    const size_t end = std::min(message.size(), begin + 1 + below(chance, 40));
    fine = counted(edgec_reply_feed(reply, message.data() + begin, end - begin, error, sizeof error));
    begin = end;
  }
  counted(edgec_reply_finish(reply, below(chance, 2) ? error : nullptr, sizeof error));
  EdgecPiece piece;
  while (edgec_reply_piece(reply, &piece)) {
    look(piece.text);
    for (size_t call = 0; call < piece.call_count; ++call) look(piece.calls[call].arguments);
  }
  EdgecReplyState state;
  edgec_reply_state(reply, &state);
  look(state.raw);
  look(state.shown);
  edgec_reply_close(reply);
}

void think(const EdgecNotations* notations, Vocabulary& vocabulary) {
  char error[200];
  const auto phase = static_cast<int32_t>(below(chance, 4)), budget = static_cast<int32_t>(below(chance, 6)) - 1;
  EdgecThinking* rule = edgec_thinking_open(notations, decode, &vocabulary, phase, budget, error, sizeof error);
  if (rule == nullptr) return void(++refused);
  for (size_t step = below(chance, 30); step > 0; --step) {
    EdgecThinkingNext next;
    edgec_thinking_next(rule, &next);
    const int64_t token = next.only >= 0 ? next.only : static_cast<int64_t>(below(chance, 1000)) - 1;
    const int given = edgec_thinking_gives(rule, token, static_cast<int>(below(chance, 2)));
    int32_t begins = 0;
    counted(edgec_thinking_take(rule, token, given, &begins, error, sizeof error));
  }
  edgec_thinking_close(rule);
}

void stream(Vocabulary& vocabulary) {
  char error[200];
  std::vector<int64_t> prompt(below(chance, 60));
  for (int64_t& token : prompt) token = static_cast<int64_t>(chance());
  EdgecTextStream* stream =
      edgec_text_stream_open(decode, &vocabulary, prompt.data(), prompt.size(), error, sizeof error);
  if (stream == nullptr) return void(++refused);
  EdgecString text;
  for (size_t step = below(chance, 40); step > 0; --step) {
    const auto token = static_cast<int64_t>(chance());
    if (counted(edgec_text_stream_push(stream, token, &text, error, sizeof error))) look(text);
  }
  if (counted(edgec_text_stream_flush(stream, &text, error, sizeof error))) look(text);
  edgec_text_stream_close(stream);
}

double odd_number() {
  const double numbers[] = {0, 0, 1, 1, 0.5, 0.9, 1e-12, 1e12, -1, 3, NAN, INFINITY, 1e300};
  return numbers[below(chance, std::size(numbers))];
}

float logit() {
  constexpr float kOdd[] = {NAN, INFINITY, -INFINITY, std::numeric_limits<float>::max(), 0};
  const size_t kind = below(chance, 400);
  return kind < std::size(kOdd) ? kOdd[kind] : static_cast<float>(below(chance, 1000)) / 50 - 10;
}

void sample() {
  char error[200];
  const int64_t tokens[] = {0, 3, -1, INT64_MAX};
  const double biases[] = {1, -100, odd_number(), 0};
  const auto top_k = static_cast<int64_t>(below(chance, 40)) - 1;
  const EdgecSampling options{odd_number(), top_k, odd_number(), odd_number(), 1, 0, odd_number(), tokens, biases,
                              below(chance, 5), chance(), static_cast<int32_t>(below(chance, 2))};
  EdgecSampler* sampler = edgec_sampler_open(&options, tokens, below(chance, 5), error, sizeof error);
  if (sampler == nullptr) return void(++refused);
  std::vector<float> logits(below(chance, 2) ? below(chance, 5) : below(chance, 3000)), scores(logits.size());
  for (float& each : logits) each = logit();
  int64_t token = 0;
  const int status = edgec_sampler_choose(sampler, logits.data(), logits.size(), &token, error, sizeof error);
  if (counted(status) && static_cast<uint64_t>(token) >= logits.size()) std::abort();
  counted(edgec_sampler_take(sampler, token, error, sizeof error));
  counted(edgec_sampler_scores(sampler, logits.data(), logits.size(), scores.data(), error, sizeof error));
  edgec_sampler_close(sampler);
}

}  // namespace

int main(int, char** arguments) {
  const std::vector<std::string> facts = texts_in(arguments[1]), messages = texts_in(arguments[2]);
  chance.seed(static_cast<unsigned>(std::stoul(arguments[3])));
  const size_t count = std::stoul(arguments[4]);
  Vocabulary vocabulary{{"<think>", "</think>", "a", " ", "\xe4", "\xbd\xa0", "\xef\xbf\xbd", "", "<"}, ""};
  for (size_t round = 0; round < count; ++round) {
    const std::string stated = below(chance, 4) ? one_of(facts) : damaged(one_of(facts), chance);
    char error[200];
    EdgecNotations* notations = edgec_notations_read(stated.data(), stated.size(), error, sizeof error);
    if (notations == nullptr) ++refused;
    const std::string message = one_of(messages);
    read_reply(notations, below(chance, 2) ? message : damaged(message, chance));
    think(notations, vocabulary);
    stream(vocabulary);
    sample();
    edgec_notations_close(notations);
  }
  std::printf("replies %zu refused %zu malformed %zu\n", count, refused, malformed);
  return 0;
}
