// The C interface of edgec's engine: a decoder's artifact, its packed weights, its sessions.
//
// No exception and no ExecuTorch type crosses it. Functions that can fail take `error` (`capacity` bytes, may be null),
// fill it with a zero-terminated English text, and return null or a status other than EDGEC_OK.
// A model may be used from several threads: one session of a model runs at a time, the others wait.
// One session belongs to one thread at a time.
// Null handles and pointers, unknown dtypes, impossible sizes and values out of range are refused, not trusted; buffers
// and handles that are given must be what they say.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define EDGEC_API __attribute__((visibility("default")))

// Raised with every change of this file that an older caller would misread.
#define EDGEC_ABI_VERSION 2
#define EDGEC_MAX_RANK 8

typedef struct EdgecModel EdgecModel;
typedef struct EdgecSession EdgecSession;
typedef struct EdgecAdapter EdgecAdapter;
typedef struct EdgecStructure EdgecStructure;
typedef struct EdgecText EdgecText;

enum EdgecStatus { EDGEC_OK = 0, EDGEC_REFUSED = 1, EDGEC_FAILED = 2 };

// Where the packed weights of a model come from.
enum EdgecPacked {
  EDGEC_PACKED_IN_MEMORY = 0,  // no path, its folder or disk refused, or nothing to pack: this process's own memory
  EDGEC_PACKED_WRITTEN = 1,    // packed just now into the file, then mapped from it
  EDGEC_PACKED_MAPPED = 2,     // mapped from the file that an earlier load wrote: nothing was packed
};

// A tensor the caller owns (input) or a session owns (output; valid until the session's next run).
// `dtype` is ExecuTorch's ScalarType: 0 uint8, 1 int8, 2 int16, 3 int32, 4 int64, 5 float16, 6 float32, 11 bool.
typedef struct {
  void* data;
  int32_t dtype;
  int32_t rank;
  int64_t sizes[EDGEC_MAX_RANK];
} EdgecTensor;

typedef struct {
  int64_t load_ns;       // program, packed weights and first method, wall
  int64_t state_bytes;   // KV cache and other state of one session
  int64_t scratch_bytes; // planned activations, one copy for all sessions unless the program keeps state in it
  int64_t packed_bytes;  // size of the packed file; 0 without one
  int64_t max_tokens;    // tokens that one call of a decoder takes; 0 when the method is not a decoder's
  int64_t max_rows;      // rows of logits that one call returns; 0 likewise
  int32_t packed;        // EdgecPacked
  int32_t sessions;      // open now
} EdgecModelInfo;

// The formats that an adapter's numbers may have, by their names in ExecuTorch's ScalarType.
enum EdgecNumbers { EDGEC_FLOAT16 = 5, EDGEC_FLOAT32 = 6, EDGEC_BFLOAT16 = 15 };

// A low-rank change of one matrix (LoRA): y += scale * b (a x). `key` is the matrix's name among the artifact's named
// data; the numbers may lie at any address.
typedef struct {
  const char* key;
  const void* a;  // [rank][width]
  const void* b;  // [rows][rank]
  int64_t rank;
  int64_t width;
  int64_t rows;
  int32_t a_dtype;  // EdgecNumbers
  int32_t b_dtype;
  float scale;
} EdgecLowRank;

EDGEC_API int edgec_abi_version(void);

// Size of the thread pool that all models of the process share; at any time: the call waits until nothing runs or loads,
// and later runs use the new pool. Returns the size in force; threads outside 1..1024 only ask.
EDGEC_API int edgec_threads(int threads);

// Whether a kernel is registered in this process, e.g. "llama::custom_sdpa.out".
EDGEC_API int edgec_has_operator(const char* name);

// The instructions with which this process multiplies matrices of few bits: "avx512vnni", "avxvnni", "avx2", "i8mm",
// "dotprod" or "plain". A lesser one than the processor's best only where the environment's EDGEC_ISA asks for it.
EDGEC_API const char* edgec_linear_kernel(void);

// Those that this processor has, best first, with a blank between two: "avx2 plain". No model opens where EDGEC_ISA names
// another.
EDGEC_API const char* edgec_linear_kernels(void);

// The packed file's path for an artifact on this CPU and ExecuTorch: FOLDER/DIGEST-KEY.packed. `digest` is the
// artifact's sha256 in hex. Returns the length of the path, or -1 when it does not fit into `capacity`.
EDGEC_API int edgec_packed_path(const char* folder, const char* digest, char* path, size_t capacity);

// Open an artifact: its program is mapped, and the weights packed into `packed_path` (mapped from there when a former
// load left them; null: packed in memory). `method` is the entry point;
// empty: a decoder's forward_rows, or else forward.
EDGEC_API EdgecModel* edgec_model_open(
    const char* artifact, const char* method, const char* packed_path, char* error, size_t capacity);

// Close a model. Its sessions must have been closed.
EDGEC_API void edgec_model_close(EdgecModel* model);
EDGEC_API void edgec_model_info(const EdgecModel* model, EdgecModelInfo* info);

// A session: own state (zeroed), own delegates over the shared packed weights. `profile` not 0: time each instruction.
EDGEC_API EdgecSession* edgec_session_open(EdgecModel* model, int profile, char* error, size_t capacity);
EDGEC_API void edgec_session_close(EdgecSession* session);

// Make an adapter for the sessions of a model; its numbers are copied. Every key must be that of a matrix of these sizes
// which edgec's own kernels multiply by.
EDGEC_API EdgecAdapter* edgec_adapter_open(
    EdgecModel* model, const EdgecLowRank* changes, size_t count, char* error, size_t capacity);

// Make an adapter of a file that `edgec adapter` wrote for the artifact with the sha256 `base` (hex), which must be the
// model's; its numbers are copied. The file is not trusted: whatever in it does not fit is refused.
EDGEC_API EdgecAdapter* edgec_adapter_read(
    EdgecModel* model, const char* path, const char* base, char* error, size_t capacity);

// The checksum over all of the file that an adapter was read from: its identity, 64 letters. Empty for others.
EDGEC_API const char* edgec_adapter_digest(const EdgecAdapter* adapter);

// Close an adapter; sessions that have it keep it.
EDGEC_API void edgec_adapter_close(EdgecAdapter* adapter);

// Give a session an adapter of its model, or none (null), from its next run on. The session's state stays: what was
// computed under another adapter must not be continued from.
EDGEC_API int edgec_session_adapter(
    EdgecSession* session, const EdgecAdapter* adapter, char* error, size_t capacity);

// Execute the method. `inputs` in the order of its arguments; they are read during the call only.
EDGEC_API int edgec_session_run(
    EdgecSession* session, const EdgecTensor* inputs, size_t count, char* error, size_t capacity);

// A decoder's call: forward_rows(tokens int64 [1, S], positions int64 [S], logit_index int64 [K]).
EDGEC_API int edgec_session_forward(
    EdgecSession* session, const int64_t* tokens, const int64_t* positions, size_t token_count, const int64_t* rows,
    size_t row_count, char* error, size_t capacity);

// Embeds in the place of some tokens of a sequence: what an encoder made of images or of sound.
typedef struct {
  int64_t token_count;       // tokens that the facts below are about, from position 0
  const float* embeds;       // [count][width]
  int64_t count;
  int64_t width;             // edgec_model_embeds_width
  const int64_t* positions;  // [count] of the tokens whose place they take, rising, below token_count
  const int64_t* span_end;   // [token_count] the last position that each token sees, at least its own; null: its own
  const int64_t* mrope;      // [3][token_count] positions of three parts; null: its own, thrice
  int64_t mrope_next;        // of the token after them, in all three parts; later ones follow
} EdgecInputEmbeds;

// The width of the embeds that a decoder reads in the place of tokens, 0 where it reads none. Then its
// edgec_session_forward also feeds the further inputs: input_embeds, embeds_mask, and span_end and mrope_positions where
// it has them; without embeds every token is read as text.
EDGEC_API int64_t edgec_model_embeds_width(const EdgecModel* model);

// Put embeds into a session's sequence, or take them out (null); they are copied. What its state holds from the first
// changed position on must be computed again. Closing a session forgets them.
EDGEC_API int edgec_session_input_embeds(
    EdgecSession* session, const EdgecInputEmbeds* embeds, char* error, size_t capacity);

// How many tokens the next call takes while a prompt is read from `start` up to `end`: as many as the method takes, or
// fewer, so that the call holds all that its tokens see. 0 where a token sees more than a call takes, or `start` is not
// below `end`. A call that ends before what its tokens see is refused.
EDGEC_API int64_t edgec_session_call_size(const EdgecSession* session, int64_t start, int64_t end);

// The tokens of one session in a call of several.
typedef struct {
  EdgecSession* session;
  int64_t token_count;  // at least one
  int64_t row_count;    // tokens whose logits are wanted; may be 0
} EdgecRun;

// A decoder's call for several sessions of one model at once, each of which continues its own sequence: layers read their
// weights once for all tokens, attention is each session's own. `tokens`, `positions` and `rows` lie one run after the
// other; a run's rows are rising indices into its own tokens. All together are within the model's max_tokens and max_rows.
// Logits have the bits that each session's own edgec_session_forward would give. They are outputs of the first run's
// session, [1, rows of all runs, vocabulary]; outputs of the other sessions stay as they were. Refused where sessions have
// different adapters, or where a program keeps its state among the activations, or in operators other than edgec's, or
// takes other inputs. After a failure the sessions' states are undefined from the positions of this call on.
EDGEC_API int edgec_model_step(
    EdgecModel* model, const EdgecRun* runs, size_t run_count, const int64_t* tokens, const int64_t* positions,
    const int64_t* rows, char* error, size_t capacity);

// Outputs of the session's last run.
EDGEC_API size_t edgec_session_output_count(const EdgecSession* session);
EDGEC_API int edgec_session_output(const EdgecSession* session, size_t index, EdgecTensor* output);

// The session's state (memory arena 2 of the program): `bytes` of it, 0 and null when the program keeps its state among
// the activations. Copy it out to save a session, copy it in to restore one; only between runs.
EDGEC_API void* edgec_session_state(EdgecSession* session, size_t* bytes);

// Accumulated times as JSON since the session was opened or reset:
// {"instructions":[{"chain":0,"index":3,"name":"llama::custom_sdpa.out","calls":8,"total_ns":123}, ...]}. `name` is the
// operator, or "delegate NAME" for a delegate's call. Owned by the session, valid until the next call. Null: no profile.
EDGEC_API const char* edgec_session_profile(EdgecSession* session);
EDGEC_API void edgec_session_profile_reset(EdgecSession* session);

// A bundle's compiled schema (schemas/NAME.grammar) with the bytes of its tokens (schemas/vocabulary.bin). Both files are
// checked. It may serve several texts, in several threads.
EDGEC_API EdgecStructure* edgec_structure_open(
    const char* grammar, const char* vocabulary, char* error, size_t capacity);

// Close a structure; texts that have it keep it.
EDGEC_API void edgec_structure_close(EdgecStructure* structure);

// The bytes that a token writes within a text; 0 where it writes nothing there. `bytes` is valid while the structure is.
EDGEC_API size_t edgec_structure_token(const EdgecStructure* structure, int64_t token, const char** bytes);

// A text of at most `budget` tokens that is held to the structure; one of INT32_MAX or more is never closed before its
// tokens run out. It belongs to one thread at a time.
EDGEC_API EdgecText* edgec_text_open(
    const EdgecStructure* structure, int64_t budget, char* error, size_t capacity);
EDGEC_API void edgec_text_close(EdgecText* text);

// Set the logits [vocabulary] of all tokens that may not come next to -infinity; the others stay. Tokens after which the
// text could not be closed within its budget may not come either, if the budget sufficed when the text began.
EDGEC_API int edgec_text_mask(EdgecText* text, float* logits, size_t count, char* error, size_t capacity);

// Move on by a token that the mask leaves; any other is refused, and the text stays where it was.
EDGEC_API int edgec_text_take(EdgecText* text, int64_t token, char* error, size_t capacity);

// What may come of the text: EdgecTextState.
enum EdgecTextState { EDGEC_TEXT_OPEN = 0, EDGEC_TEXT_WHOLE = 1, EDGEC_TEXT_ENDED = 2 };
// OPEN: it is the beginning of one; WHOLE: it is one, and may go on; ENDED: it is one, and nothing may follow.
EDGEC_API int edgec_text_state(const EdgecText* text);

#if defined(__cplusplus)
}
#endif
