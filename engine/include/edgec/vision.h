// The C interface of vision, next to edgec/engine.h, whose rules hold here too: images in, rows in the place of a
// prompt's image tokens.
//
// The bundle's tokenizer, which the engine does not have, makes ids of the prompt; the decoder is a session of
// edgec/engine.h that the caller opened for the method "forward" and feeds as any other. Per bundle, then per prompt:
//
//     edgec_vision_open -> edgec_vision_info -> ... -> edgec_vision_close
//
//     edgec_vision_prompt   the prompt's text with the places of its images written out; the tokenizer makes ids of it
//     edgec_vision_begin    a prompt of so many images, which forgets the last one; 0 for a prompt of text alone
//     edgec_vision_add      each image, in order: it is cut into tiles; its pixels are not needed afterwards
//     edgec_vision_step     one tile through the image encoder at a time, until none is left; a caller may stop after any
//     edgec_vision_place    gives the rows to the decoder's session, for the ids of the whole prompt
//     edgec_session_forward ...   in calls of edgec_session_call_size tokens while the prompt is read
//
// A session keeps its rows until the next edgec_vision_place, so tokens that follow the prompt, one by one or several to
// verify, are fed as ever. Every prompt needs edgec_vision_place, one of text alone too, or the images of the last would
// stay in their places; a conversation that goes on gives all its tokens and images again, and *kept says how much of the
// session's state still holds.
//
// An EdgecVision belongs to one thread at a time, and so does the session that it is given. Texts that it returns belong to
// it and are valid until the next call for it, those of EdgecVisionInfo until it is closed. They are UTF-8, and end with a
// zero that their length does not count.
#pragma once

#include "engine.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct EdgecVision EdgecVision;

// Further statuses, of images or prompts that are refused; EdgecStatus has those of other failures.
enum EdgecVisionStatus {
  EDGEC_VISION_ABSENT = 32,       // the bundle's model has no vision
  EDGEC_VISION_UNDESCRIBED = 33,  // the bundle does not describe how its images are prepared; the text says why
  EDGEC_IMAGE_SIZE = 34,         // no pixels, above 100 million, or one side above 100 times the other
  EDGEC_IMAGES_TOO_MANY = 35,    // more images than the context holds
  EDGEC_IMAGES_MISPLACED = 36,   // images and their places in the prompt do not agree
  EDGEC_IMAGE_NEEDED = 37,       // the model answers about images only, and the prompt has none
  EDGEC_SPAN_TOO_LONG = 38,      // more tokens see each other than one call of the decoder takes
};

// Whether the tokenizer adds tokens of its own, such as the first one, to a prompt with images.
enum EdgecSpecialTokens {
  EDGEC_SPECIAL_TOKENS_AS_TEXT = 0,  // as for text alone: unless a chat template wrote the first one already
  EDGEC_SPECIAL_TOKENS_NEVER = 1,
};

// What a bundle's vision encoder read, in tiles, and write, in rows: each row takes the place of one token of the decoder.
typedef struct {
  int64_t channels;  // of a tile
  int64_t height;    // likewise, pixels
  int64_t width;
  int64_t rows;         // of a tile
  int64_t image_token;  // the id that stands for each row among a prompt's tokens
  int64_t context;      // tokens that the decoder holds
  const char* placeholder;  // stands for an image in a prompt's text, as chat templates write it
  int32_t special_tokens;   // EdgecSpecialTokens
  int32_t needs_image;      // not 0: prompts without an image are refused
} EdgecVisionInfo;

// An image from the caller, upright: `height` lines of `width` pixels. A pixel is red, green and blue, a byte each, and
// perhaps one more byte that is ignored, such as its opacity.
typedef struct {
  const uint8_t* pixels;
  int64_t width;
  int64_t height;
  int64_t line_bytes;   // from one line's beginning to the next one's; 0: they follow each other
  int32_t pixel_bytes;  // 3 or 4
} EdgecImage;

// What becomes of an image of some size.
typedef struct {
  int64_t columns;  // of the grid that it is cut into; 1 where it is not
  int64_t lines;    // likewise
  int64_t tiles;    // all parts, and the whole image once more where it is read beside them
  int64_t tokens;   // rows of all tiles: places in the prompt, without the marks around them
} EdgecImageTiles;

typedef struct {
  double prepare_ms;  // to cut and scale the images since edgec_vision_begin, wall time
  double encode_ms;      // of the image encoder, likewise
} EdgecVisionTimes;

// Open a bundle's vision encoder: its manifest and images/preparation.json in the folder `bundle`, and the program `artifact`. The
// image encoder itself is loaded with the first tile. `packed_path`: the file of its packed weights, as of
// edgec_model_open, another than the decoder's; null: packed in memory. `status` (may be null): EDGEC_OK or the reason.
EDGEC_API EdgecVision* edgec_vision_open(
    const char* bundle, const char* artifact, const char* packed_path, int32_t* status, char* error, size_t capacity);
EDGEC_API void edgec_vision_close(EdgecVision* vision);
EDGEC_API void edgec_vision_info(const EdgecVision* vision, EdgecVisionInfo* info);

// What becomes of an image of width x height pixels, one of `images` in its prompt.
EDGEC_API int edgec_vision_tiles(
    EdgecVision* vision, int64_t width, int64_t height, int64_t images, EdgecImageTiles* tiles, char* error,
    size_t capacity);

// The text that takes the place of such an image's placeholder: the image token's own text for each row, and what the
// model wants around the rows of its tiles.
EDGEC_API int edgec_vision_text(
    EdgecVision* vision, int64_t width, int64_t height, int64_t images, const char** text, size_t* bytes, char* error,
    size_t capacity);

// A prompt's whole text, as the tokenizer gets it: `bytes` of `text` with the text of the first image in the place of the
// first placeholder, and so on. A text without placeholders has its images before it; one without images stays as it is.
// `sizes`: width and height of each image, [images][2].
EDGEC_API int edgec_vision_prompt(
    EdgecVision* vision, const char* text, size_t bytes, const int64_t* sizes, int64_t images, const char** prompt,
    size_t* prompt_bytes, char* error, size_t capacity);

// The tiles of an image as the image encoder reads them: float32 [tiles, channels, height, width], `count` values in all.
// Nothing else is done with them.
EDGEC_API int edgec_vision_prepare(
    EdgecVision* vision, const EdgecImage* image, int64_t images, float* tiles, size_t count, char* error,
    size_t capacity);

// Begin a prompt of so many images, which may be 0. Tiles and rows of an earlier prompt are forgotten here, and not in a
// session that has them.
EDGEC_API int edgec_vision_begin(EdgecVision* vision, int64_t images, char* error, size_t capacity);

// Add the next image. Its tiles wait as bytes; its pixels are read during the call only.
EDGEC_API int edgec_vision_add(EdgecVision* vision, const EdgecImage* image, char* error, size_t capacity);

// Let the image encoder read the next tile; `left`: how many wait after it. Nothing happens where none waits. After a
// failure the prompt's tiles and rows are forgotten.
EDGEC_API int edgec_vision_step(EdgecVision* vision, int64_t* left, char* error, size_t capacity);

// Let the image encoder read a tile as it is, float32 [channels, height, width], to compare the artifact with golden
// vectors; it counts as an image of one tile that was begun, added and read.
EDGEC_API int edgec_vision_encode(EdgecVision* vision, const float* tile, size_t count, char* error, size_t capacity);

// Give the rows of all images to a session of the decoder, in the place of the image tokens among `tokens`: the whole
// prompt from position 0, `count` of them. All images must have been added and read. A prompt without images takes the
// rows of an earlier one away. `kept`: the first so many tokens are read as they were without these images, so that the
// session's state up to there still holds where it was computed from the same tokens; the others must be fed again. The
// rows are copied into the session.
EDGEC_API int edgec_vision_place(
    EdgecVision* vision, EdgecSession* session, const int64_t* tokens, size_t count, int64_t* kept, char* error,
    size_t capacity);

EDGEC_API void edgec_vision_times(const EdgecVision* vision, EdgecVisionTimes* times);

#if defined(__cplusplus)
}
#endif
