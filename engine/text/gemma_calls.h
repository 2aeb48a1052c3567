// Calls as Gemma writes them: `call:weather{city:<|"|>Oslo<|"|>,days:3}`, with keys bare and marks for quotes.
#pragma once

#include <string>
#include <utility>

#include "call_body.h"

namespace edgec::text {

class GemmaCall : public CallBody {
 public:
  // `quote`: the mark on both sides of a text, not empty.
  explicit GemmaCall(std::string quote) : quote_(std::move(quote)) {}

  std::vector<WrittenCall> read(std::string_view text) const override;

 private:
  std::string quote_;
};

}  // namespace edgec::text
