// How a model's messages tell reasoning, calls of tools and the answer apart: facts about its chat template, as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "call_body.h"

namespace edgec::text {

struct ThinkingNotation {
  std::string open;
  std::string close;
  std::vector<int64_t> open_tokens;   // empty where no tokens write the markers
  std::vector<int64_t> close_tokens;
};

struct CallNotation {
  std::string open;
  std::string close;    // empty: only the next call or the message's end does it
  std::string before;   // a special token that may come before `open`; or empty
  bool alone = false;   // a call is all of the message
  bool many = false;    // several calls may follow each other, each in its own markers
  std::unique_ptr<CallBody> body;
};

struct Notations {
  std::optional<ThinkingNotation> thinking;
  std::optional<CallNotation> calls;
  // Markers around the parts of a message that belong to none of them.
  std::vector<std::string> dropped;
  // The tools that may be called: each name, with the arguments that are texts by its schema.
  std::map<std::string, std::set<std::string>> tools;
};

// Read the facts, as docs/runner.md states them. Throws Failure where the text holds anything else.
Notations read_notations(std::string_view facts);

}  // namespace edgec::text
