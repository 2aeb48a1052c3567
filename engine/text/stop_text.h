// Strings that end a text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgec::text {

// A filter between the model's text and the reader that lets no part of a stop string through. What could begin one is
// kept back until the next piece decides, so the result does not depend on how the text was cut into pieces.
class StopText {
 public:
  // None of the stops is empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that is now safe to show; `hit` is set once a stop string is complete.
  std::string feed(std::string_view piece);
  // The text that was kept back, once no more will come.
  std::string flush() { return std::exchange(kept_, ""); }
  // The number of the stop string that ended the text; -1: none.
  int hit() const { return hit_; }

 private:
  bool ends_earlier(std::string_view text, size_t stop) const;

  std::vector<std::string> stops_;
  std::string kept_;
  int hit_ = -1;
};

}  // namespace edgec::text
