// The C interface of audio, next to edgec/engine.h, whose rules hold here too: a sound in, tokens with their times
// out.
//
// A bundle is opened once. A sound is given to it, then steps are made until it is done: each step reads a window of the
// sound or writes one token, so a caller may stop after any of them. The bundle's tokenizer, which the engine does not
// have, makes text of the tokens.
//
//     edgec_audio_open -> edgec_audio_begin -> edgec_audio_step ... -> edgec_audio_summary -> edgec_audio_close
#pragma once

#include "engine.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct EdgecAudio EdgecAudio;

// Further statuses, of a sound that is refused or of what is asked of it; EdgecStatus has those of other failures.
enum EdgecAudioStatus {
  EDGEC_SOUND_UNREADABLE = 16,   // no such file, or not a WAV file of a known form
  EDGEC_SOUND_EMPTY = 17,        // no samples
  EDGEC_SOUND_TOO_LONG = 18,     // above four hours
  EDGEC_SOUND_RATE = 19,         // another sampling rate than the model's
  EDGEC_SOUND_NOT_FINITE = 20,   // samples that are not numbers
  EDGEC_LANGUAGE_UNKNOWN = 21,   // the model has no token for the language
  EDGEC_AUDIO_OPTION = 22,     // it has no such task, or no timestamps
};

// Whether the text is cut by the model's own timestamps.
enum EdgecTimestamps {
  EDGEC_TIMESTAMPS_IF_KNOWN = 0,  // where the model has them
  EDGEC_TIMESTAMPS_OFF = 1,       // a segment for each window
  EDGEC_TIMESTAMPS_ON = 2,        // refused where it has none
};

typedef struct {
  const char* language;  // that is spoken, such as "en"; null: the model detects it in the first window
  const char* task;      // "transcribe" or "translate"; null: transcribe
  int32_t timestamps;    // EdgecTimestamps
  int64_t most_tokens;   // new tokens of a window; 0: as many as the context takes
} EdgecAudioOptions;

// What a step did.
enum EdgecAudioProgress {
  EDGEC_AUDIO_WORKED = 0,   // no segment is certain yet
  EDGEC_AUDIO_SEGMENT = 1,  // a segment is certain
  EDGEC_AUDIO_DONE = 2,     // the whole sound is written, or none was begun
};

// A piece of what was said. `tokens` with timestamps among them, valid until the next call for the same bundle.
typedef struct {
  double start_s;  // from the sound's beginning
  double end_s;
  const int64_t* tokens;
  size_t token_count;
} EdgecSegment;

typedef struct {
  const char* language;     // its token, such as "<|en|>"; empty where the model knows one, or before it is detected
  int64_t first_timestamp;  // tokens from this id on are timestamps, which are not text; -1: there are none
  double sound_s;
  double features_ms;  // to make what the encoder reads, wall time so far
  double encode_ms;    // of the encoder, likewise
  double write_ms;     // of the decoder, likewise
} EdgecAudioSummary;

// What executes an artifact where the engine does not. Each function returns 0, or another number where it failed, which
// fails the call that needed it. None may call back into the same EdgecAudio.
typedef struct {
  void* context;  // the first argument of both
  // Let the encoder read a source, `count` values in row order, and keep what the decoder attends to.
  int32_t (*read)(void* context, const float* source, size_t count);
  // Feed tokens to the decoder at the positions from `start` on; the logits of the last one are valid until the next call.
  int32_t (*feed)(
      void* context, const int64_t* tokens, size_t count, int64_t start, const float** logits, size_t* vocabulary);
} EdgecAudioCalls;

// Open a bundle that takes audio: its manifest and generation config in the folder `bundle`, and the program `artifact`.
EDGEC_API EdgecAudio* edgec_audio_open(const char* bundle, const char* artifact, char* error, size_t capacity);
// The same over an artifact that the caller executes: nothing of ExecuTorch is needed. `calls` are copied; what they
// lead to must outlive the bundle.
EDGEC_API EdgecAudio* edgec_audio_open_called(
    const char* bundle, const EdgecAudioCalls* calls, char* error, size_t capacity);
EDGEC_API void edgec_audio_close(EdgecAudio* audio);

// Begin a sound: `count` samples in -1..1 at `rate` Hz, which are copied. A sound that was begun before ends. `options`
// null: the defaults.
EDGEC_API int edgec_audio_begin(
    EdgecAudio* audio, const float* samples, int64_t count, int64_t rate, const EdgecAudioOptions* options,
    char* error, size_t capacity);

// The same for a WAV file at the model's rate; its channels are averaged.
EDGEC_API int edgec_audio_begin_file(
    EdgecAudio* audio, const char* path, const EdgecAudioOptions* options, char* error, size_t capacity);

// Do the next step, or give the next segment where one is certain already. After a failure the sound has ended.
EDGEC_API int edgec_audio_step(
    EdgecAudio* audio, int32_t* progress, EdgecSegment* segment, char* error, size_t capacity);

// What is known of the sound so far.
EDGEC_API void edgec_audio_summary(const EdgecAudio* audio, EdgecAudioSummary* summary);

// The two halves of a step by themselves, to compare the artifact with golden vectors; a sound that was begun ends. Read
// what the encoder reads: features [mels, frames], or samples as they are.
EDGEC_API int edgec_audio_read(
    EdgecAudio* audio, const float* source, size_t count, char* error, size_t capacity);
// Feed tokens at the positions from `start` on; `logits` [vocabulary] of the last one are valid until the next call.
EDGEC_API int edgec_audio_feed(
    EdgecAudio* audio, const int64_t* tokens, size_t count, int64_t start, const float** logits, size_t* vocabulary,
    char* error, size_t capacity);

#if defined(__cplusplus)
}
#endif
