// Calls as Python writes them: `[weather(city="Oslo", days=3)]`; a text that is JSON is read as such, too.
#pragma once

#include "call_body.h"

namespace edgec::text {

class PythonCalls : public CallBody {
 public:
  std::vector<WrittenCall> read(std::string_view text) const override;
};

}  // namespace edgec::text
