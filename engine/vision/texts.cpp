#include "texts.h"

namespace edgec::runner {
namespace {

void append_rows(std::string& out, const ImageTexts& texts, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) out += texts.row;
}

void replace(std::string& text, std::string_view mark, const std::string& value) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size())) {
    text.replace(at, mark.size(), value);
  }
}

std::string tile_mark(const GridTexts& marks, int64_t line, int64_t column) {
  std::string text = marks.tile;
  replace(text, "{row}", std::to_string(line + 1));
  replace(text, "{column}", std::to_string(column + 1));
  return text;
}

}  // namespace

std::string image_text(const ImageTexts& texts, const TileGrid& grid, int64_t rows) {
  std::string out;
  if (!texts.grid || grid.parts() == 1) {
    out = texts.before;
    append_rows(out, texts, rows);
    return out + texts.after;
  }
  const GridTexts& marks = *texts.grid;
  out = marks.begin;
  for (int64_t line = 0; line < grid.lines; ++line) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      out += tile_mark(marks, line, column);
      append_rows(out, texts, rows);
    }
    out += marks.line;
  }
  if (grid.whole) {
    out += marks.whole;
    append_rows(out, texts, rows);
  }
  return out + marks.end;
}

std::string prompt_text(const ImageTexts& texts, std::string_view prompt, const std::vector<std::string>& images) {
  std::string out;
  if (prompt.find(texts.placeholder) == std::string_view::npos) {
    if (images.empty()) return std::string(prompt);
    for (const std::string& image : images) out += image;
    return out + texts.after_images + std::string(prompt) + texts.end;
  }
  size_t used = 0;
  for (size_t at = prompt.find(texts.placeholder); at != std::string_view::npos; at = prompt.find(texts.placeholder)) {
    out += prompt.substr(0, at);
    if (used < images.size()) out += images[used];
    ++used;
    prompt.remove_prefix(at + texts.placeholder.size());
  }
  if (used != images.size()) {
    throw engine::Failure(
        EDGEC_IMAGES_MISPLACED, "there are " + std::to_string(images.size()) + " images, and the text names " +
                                    std::to_string(used) + " places for one");
  }
  return out + texts.after_images + std::string(prompt) + texts.end;
}

}  // namespace edgec::runner
