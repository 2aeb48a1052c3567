// The part of the C interface about texts that are held to a structure.
#include <cstdint>
#include <memory>
#include <string_view>

#include "edgec/engine.h"
#include "failure.h"
#include "guarded.h"
#include "structured_text.h"

using edgec::engine::Failure;
using edgec::engine::Structure;
using edgec::engine::StructuredText;
using edgec::engine::guarded;
using edgec::engine::require;

struct EdgecStructure {
  std::shared_ptr<const Structure> structure;
};

struct EdgecText {
  std::shared_ptr<const Structure> structure;
  StructuredText text;
};

EdgecStructure* edgec_structure_open(const char* grammar, const char* vocabulary, char* error, size_t capacity) {
  std::unique_ptr<EdgecStructure> made;
  const auto open = [&] {
    require(grammar, "the structure's path");
    require(vocabulary, "the vocabulary's path");
    made.reset(new EdgecStructure{std::make_shared<const Structure>(grammar, vocabulary)});
  };
  return guarded(open, error, capacity) == EDGEC_OK ? made.release() : nullptr;
}

void edgec_structure_close(EdgecStructure* structure) {
  delete structure;
}

size_t edgec_structure_token(const EdgecStructure* structure, int64_t token, const char** bytes) {
  if (structure == nullptr || bytes == nullptr) return 0;
  const auto& tokens = structure->structure->tokens;
  if (token < 0 || token >= static_cast<int64_t>(tokens.size())) return 0;
  const std::string_view text = tokens.text(static_cast<uint32_t>(token));
  *bytes = text.data();
  return text.size();
}

EdgecText* edgec_text_open(const EdgecStructure* structure, int64_t budget, char* error, size_t capacity) {
  std::unique_ptr<EdgecText> made;
  const auto open = [&] {
    require(structure, "the structure");
    if (budget < 1) throw Failure(EDGEC_REFUSED, "a text has at least one token");
    made.reset(new EdgecText{structure->structure, StructuredText(*structure->structure, budget)});
  };
  return guarded(open, error, capacity) == EDGEC_OK ? made.release() : nullptr;
}

void edgec_text_close(EdgecText* text) {
  delete text;
}

int edgec_text_mask(EdgecText* text, float* logits, size_t count, char* error, size_t capacity) {
  const auto mask = [&] {
    require(text, "the text");
    require(logits, "the logits");
    text->text.mask(logits, count);
  };
  return guarded(mask, error, capacity);
}

int edgec_text_take(EdgecText* text, int64_t token, char* error, size_t capacity) {
  const auto take = [&] {
    require(text, "the text");
    if (token < 0 || token > UINT32_MAX) throw Failure(EDGEC_REFUSED, "the token lies outside the vocabulary");
    text->text.take(static_cast<uint32_t>(token));
  };
  return guarded(take, error, capacity);
}

int edgec_text_state(const EdgecText* text) {
  if (text == nullptr || !text->text.whole()) return EDGEC_TEXT_OPEN;
  return text->text.ended() ? EDGEC_TEXT_ENDED : EDGEC_TEXT_WHOLE;
}
