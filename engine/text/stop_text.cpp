#include "stop_text.h"

#include <algorithm>
#include <tuple>

#include "utf8.h"

namespace edgec::text {

// Whether a stop string in `text` ends before the one that was found; of two that end together, the longer one counts.
bool StopText::ends_earlier(std::string_view text, size_t stop) const {
  const auto order = [&](const std::string& each) {
    return std::make_tuple(text.find(each) + each.size(), -static_cast<ptrdiff_t>(each.size()));
  };
  return hit_ < 0 || order(stops_[stop]) < order(stops_[static_cast<size_t>(hit_)]);
}

std::string StopText::feed(std::string_view piece) {
  std::string text = flush() + std::string(piece);
  size_t keep = 0;
  for (size_t stop = 0; stop < stops_.size(); ++stop) {
    const bool complete = text.find(stops_[stop]) != std::string::npos;
    if (complete && ends_earlier(text, stop)) hit_ = static_cast<int>(stop);
    keep = std::max(keep, overlap(text, stops_[stop]));
  }
  if (hit_ >= 0) return text.substr(0, text.find(stops_[static_cast<size_t>(hit_)]));
  kept_ = text.substr(text.size() - keep);
  text.resize(text.size() - keep);
  return text;
}

}  // namespace edgec::text
