// The C interface of what edgec makes of a model's tokens: the next token, its text, and the parts of a reply. Free of
// ExecuTorch, so that apps whose system executes the model compile it, too.
//
// Rules, errors and statuses are those of engine.h. Texts are UTF-8 and have their length beside them; those that a handle
// returns are valid until its next call. A handle belongs to one thread at a time.
#pragma once

#include "engine.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct EdgecTextStream EdgecTextStream;
typedef struct EdgecNotations EdgecNotations;
typedef struct EdgecReply EdgecReply;
typedef struct EdgecThinking EdgecThinking;
typedef struct EdgecSampler EdgecSampler;

// As edgec_reply_feed: a call of a tool was opened, and what follows is none.
enum EdgecTextStatus { EDGEC_MALFORMED_CALL = 3 };

// A text that belongs to a handle.
typedef struct {
  const char* text;
  size_t bytes;
} EdgecString;

// Writes the text of token ids, valid until the next call with this context. Returns EDGEC_OK, else the call that asked
// fails.
typedef int (*EdgecDecode)(void* context, const int64_t* tokens, size_t count, EdgecString* text);

// Tokens to text, one at a time, without broken characters or lost spaces; the end of the prompt decides whether a leading
// space belongs to the text.
EDGEC_API EdgecTextStream* edgec_text_stream_open(
    EdgecDecode decode, void* context, const int64_t* prompt, size_t count, char* error, size_t capacity);
EDGEC_API void edgec_text_stream_close(EdgecTextStream* stream);
// The text that a token completes; empty while a character is incomplete.
EDGEC_API int edgec_text_stream_push(
    EdgecTextStream* stream, int64_t token, EdgecString* text, char* error, size_t capacity);
// The text of an incomplete last character.
EDGEC_API int edgec_text_stream_flush(EdgecTextStream* stream, EdgecString* text, char* error, size_t capacity);

// Read what a chat template shows of reasoning and calls, as JSON (docs/runner.md, "Text"). Handles that are opened with
// it need it until they are closed.
EDGEC_API EdgecNotations* edgec_notations_read(const char* facts, size_t bytes, char* error, size_t capacity);
EDGEC_API void edgec_notations_close(EdgecNotations* notations);

enum EdgecPieceKind { EDGEC_PIECE_TEXT = 0, EDGEC_PIECE_REASONING = 1, EDGEC_PIECE_CALL = 2 };

typedef struct {
  EdgecString name;
  EdgecString arguments;  // a JSON object in ASCII
} EdgecToolCall;

typedef struct {
  int32_t kind;      // EdgecPieceKind
  EdgecString text;  // what was added; of a call, the call as the model wrote it
  const EdgecToolCall* calls;  // those that became whole with it
  size_t call_count;
} EdgecPiece;

typedef struct {
  EdgecString shown;       // the answer so far
  EdgecString reasoning;   // the reasoning so far
  EdgecString raw;         // all of the message with its markers
  size_t thought_end;      // where in `raw` the last reasoning ends, after its marker
  int64_t stopped_by;      // the number of the stop string that has ended the answer; -1: none
} EdgecReplyState;

// Begin to read a message. `notations` null: nothing but stop strings is looked for. `reasoning` not 0: the prompt has
// opened the reasoning already.
EDGEC_API EdgecReply* edgec_reply_open(
    const EdgecNotations* notations, const EdgecString* stops, size_t stop_count, int reasoning, char* error,
    size_t capacity);
EDGEC_API void edgec_reply_close(EdgecReply* reply);
// Read more of the message. EDGEC_MALFORMED_CALL ends it; pieces that were certain before can still be taken.
EDGEC_API int edgec_reply_feed(EdgecReply* reply, const char* text, size_t bytes, char* error, size_t capacity);
// Read what was kept back, once nothing more comes; fails likewise.
EDGEC_API int edgec_reply_finish(EdgecReply* reply, char* error, size_t capacity);
// Take the next piece that is certain. Returns 1, or 0 where there is none.
EDGEC_API int edgec_reply_piece(EdgecReply* reply, EdgecPiece* piece);
EDGEC_API void edgec_reply_state(EdgecReply* reply, EdgecReplyState* state);

// Whether the reasoning of a message may still begin, is being written, or is over.
enum EdgecThinkingPhase { EDGEC_MAY_THINK = 0, EDGEC_THINKS = 1, EDGEC_ANSWERS = 2 };

// What may come next in a message. The structure that an answer is constrained to, where there is one, is the caller's.
typedef struct {
  int64_t only;      // the one token that may come; -1: not prescribed
  int64_t also;      // a token that may come besides those that the structure allows; -1: none
  int32_t thinking;  // not 0: within the reasoning, where the message does not end
  int32_t answer;    // not 0: the structure decides; it is begun anew after the reasoning
} EdgecThinkingNext;

// Follow a message through its reasoning, of at most `budget` tokens; negative: of any number.
EDGEC_API EdgecThinking* edgec_thinking_open(
    const EdgecNotations* notations, EdgecDecode decode, void* context, int32_t phase, int64_t budget, char* error,
    size_t capacity);
EDGEC_API void edgec_thinking_close(EdgecThinking* thinking);
EDGEC_API void edgec_thinking_next(const EdgecThinking* thinking, EdgecThinkingNext* next);
// Whether the structure is to take a token, too; `allowed` not 0: it allows it. To be asked before the message takes it.
EDGEC_API int edgec_thinking_gives(const EdgecThinking* thinking, int64_t token, int allowed);
// Take a token; `given`: what edgec_thinking_gives said. `begins` becomes 1 where the reasoning is over with it.
EDGEC_API int edgec_thinking_take(
    EdgecThinking* thinking, int64_t token, int given, int32_t* begins, char* error, size_t capacity);

// How a token is chosen. Greedy: 0 everywhere, but 1 for top_p and repetition_penalty.
typedef struct {
  double temperature;         // logits are divided by it; 0: the largest is taken
  int64_t top_k;              // keep the k largest, and what equals the last of them; 0: all
  double top_p;               // keep the fewest tokens whose probability reaches it
  double min_p;               // drop tokens less likely than this share of the likeliest
  double repetition_penalty;  // makes tokens of prompt and answer less likely
  double presence_penalty;    // subtracted from the logits of tokens of the answer, -2 to 2
  double frequency_penalty;   // the same, times how often the answer has them
  const int64_t* biased;      // tokens with a bias
  const double* biases;       // added to their logits, -100 (never) to 100
  size_t bias_count;
  uint64_t seed;
  int32_t seeded;             // 0: the system's random numbers
} EdgecSampling;

EDGEC_API EdgecSampler* edgec_sampler_open(
    const EdgecSampling* sampling, const int64_t* prompt, size_t count, char* error, size_t capacity);
EDGEC_API void edgec_sampler_close(EdgecSampler* sampler);
// The next token by its logits, of which -infinity is never chosen.
EDGEC_API int edgec_sampler_choose(
    EdgecSampler* sampler, const float* logits, size_t count, int64_t* token, char* error, size_t capacity);
// A token was written, whether it was the chosen one or not.
EDGEC_API int edgec_sampler_take(EdgecSampler* sampler, int64_t token, char* error, size_t capacity);
// The logits by which edgec_sampler_choose draws, into `scores` [count].
EDGEC_API int edgec_sampler_scores(
    const EdgecSampler* sampler, const float* logits, size_t count, float* scores, char* error, size_t capacity);

#if defined(__cplusplus)
}
#endif
