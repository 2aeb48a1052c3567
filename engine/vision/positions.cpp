#include "positions.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace edgec::runner {
namespace {

std::vector<int64_t> reach_of(const VisionFacts& facts, const std::vector<int64_t>& rows, int64_t count) {
  if (facts.ahead == Ahead::kNone || rows.empty()) return {};
  if (facts.ahead == Ahead::kPrompt) return std::vector<int64_t>(static_cast<size_t>(count), count - 1);
  std::vector<int64_t> span_end(static_cast<size_t>(count));
  std::iota(span_end.begin(), span_end.end(), 0);
  // From the last row to the first: a row that another one follows sees as far as that one.
  for (size_t at = rows.size(); at-- > 0;) {
    const bool followed = at + 1 < rows.size() && rows[at + 1] == rows[at] + 1;
    if (followed) span_end[static_cast<size_t>(rows[at])] = span_end[static_cast<size_t>(rows[at + 1])];
  }
  return span_end;
}

// The positions of a text and of images among it, each of which begins with every so many-th of the rows.
void add_mrope(const VisionFacts& facts, size_t count, PromptPlaces& places) {
  const RowGrid grid = *facts.grid;
  places.mrope.resize(3 * count);
  int64_t* const parts[] = {places.mrope.data(), places.mrope.data() + count, places.mrope.data() + 2 * count};
  size_t at = 0;
  int64_t next = 0;
  const auto add_text = [&](size_t end) {
    for (; at < end; ++at, ++next) parts[0][at] = parts[1][at] = parts[2][at] = next;
  };
  const auto size = static_cast<size_t>(facts.rows);
  for (size_t row = 0; row + size <= places.rows.size(); row += size) {
    add_text(static_cast<size_t>(places.rows[row]));
    for (int64_t own = 0; own < facts.rows && at < count; ++own, ++at) {
      parts[0][at] = next;
      parts[1][at] = next + own / grid.wide;
      parts[2][at] = next + own % grid.wide;
    }
    next += std::max(grid.high, grid.wide);
  }
  add_text(count);
  places.mrope_next = next;
}

}  // namespace

PromptPlaces prompt_places(const VisionFacts& facts, const int64_t* tokens, size_t count) {
  PromptPlaces places;
  const auto length = static_cast<int64_t>(count);
  for (int64_t at = 0; at < length; ++at) {
    if (tokens[at] == facts.image_token) places.rows.push_back(at);
  }
  places.span_end = reach_of(facts, places.rows, length);
  if (facts.grid) add_mrope(facts, count, places);
  places.kept = places.rows.empty() ? length : places.rows.front();
  for (int64_t at = 0; at < places.kept && !places.span_end.empty(); ++at) {
    if (places.span_end[static_cast<size_t>(at)] > at) places.kept = at;
  }
  return places;
}

void check_places(const VisionFacts& facts, const PromptPlaces& places, int64_t tiles) {
  const auto found = static_cast<int64_t>(places.rows.size());
  if (found != tiles * facts.rows) {
    throw engine::Failure(
        EDGEC_IMAGES_MISPLACED, "there are " + std::to_string(tiles) + " tiles of " + std::to_string(facts.rows) +
                                    " rows, and " + std::to_string(found) + " image tokens");
  }
  if (tiles == 0 && facts.ahead == Ahead::kPrompt) {
    throw engine::Failure(EDGEC_IMAGE_NEEDED, "this model answers about images only");
  }
}

}  // namespace edgec::runner
