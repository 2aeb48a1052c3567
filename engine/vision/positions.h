// How far the tokens of a prompt with images see, and their positions of three parts: bundle/span_end.py, bundle/mrope.py.
#pragma once

#include <cstdint>
#include <vector>

#include "vision_facts.h"

namespace edgec::runner {

// Where images lie in a prompt, and what follows from it.
struct PromptPlaces {
  std::vector<int64_t> rows;   // positions of the image tokens
  std::vector<int64_t> span_end;  // [tokens]; empty where every token sees itself last
  std::vector<int64_t> mrope;  // [3][tokens]; empty where positions have one part
  int64_t mrope_next = 0;      // of the token after the prompt
  int64_t kept = 0;            // tokens before all that an image changes
};

PromptPlaces prompt_places(const VisionFacts& facts, const int64_t* tokens, size_t count);
// That a prompt names a place for each row of so many tiles, and has an image where the model needs one. Throws
// Failure (EDGEC_IMAGES_MISPLACED, EDGEC_IMAGE_NEEDED).
void check_places(const VisionFacts& facts, const PromptPlaces& places, int64_t tiles);

}  // namespace edgec::runner
