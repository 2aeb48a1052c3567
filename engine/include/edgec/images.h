// The C interface of images without what runs an artifact, for apps whose artifact the system executes: images in, the
// tiles that its function "vision_encoder" reads out, and the places of their rows in a prompt. Nothing of ExecuTorch is needed; of
// edgec/vision.h the types are used, and its rules hold. Per bundle, then per prompt:
//
//     edgec_images_open -> ... -> edgec_images_close
//
//     edgec_images_prompt    the prompt's text with the places of its images written out; the tokenizer makes ids of it
//     edgec_images_tiles     how many tiles an image becomes
//     edgec_images_prepare   their values, one after the other
//     edgec_images_places    where the rows of all tiles lie among the ids of the whole prompt
//
// An EdgecImages belongs to one thread at a time. Texts and arrays that it returns belong to it and are valid until the
// next call for it.
#pragma once

#include "vision.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct EdgecImages EdgecImages;

// Where the rows of a prompt's images lie, and what follows from it for all of its tokens.
typedef struct {
  const int64_t* rows;  // positions of the rows, rising
  int64_t row_count;
  const int64_t* span_end;  // [tokens]: the last position that each token sees; null: its own
  const int64_t* mrope;  // [3][tokens]: positions of three parts; null: positions have one part
  int64_t mrope_next;    // all three of the token after the prompt
  int64_t kept;          // the first so many tokens are read as they were without these images
} EdgecImagePlaces;

// Read manifest.json and images/preparation.json in the folder `bundle`. `status` (may be null): EDGEC_OK or the reason.
EDGEC_API EdgecImages* edgec_images_open(const char* bundle, int32_t* status, char* error, size_t capacity);
EDGEC_API void edgec_images_close(EdgecImages* images);

// As edgec_vision_prompt.
EDGEC_API int edgec_images_prompt(
    EdgecImages* images, const char* text, size_t bytes, const int64_t* sizes, int64_t count, const char** prompt,
    size_t* prompt_bytes, char* error, size_t capacity);

// As edgec_vision_tiles; `of`: images of the prompt.
EDGEC_API int edgec_images_tiles(
    EdgecImages* images, int64_t width, int64_t height, int64_t of, EdgecImageTiles* tiles, char* error,
    size_t capacity);

// As edgec_vision_prepare.
EDGEC_API int edgec_images_prepare(
    EdgecImages* images, const EdgecImage* image, int64_t of, float* tiles, size_t count, char* error, size_t capacity);

// The places of the rows of `tiles` tiles among the ids of the whole prompt, `count` of them. Refused where they do not
// agree, or where the model needs an image and there is none.
EDGEC_API int edgec_images_places(
    EdgecImages* images, const int64_t* tokens, size_t count, int64_t tiles, EdgecImagePlaces* places, char* error,
    size_t capacity);

#if defined(__cplusplus)
}
#endif
