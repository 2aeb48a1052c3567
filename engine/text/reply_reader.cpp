#include "reply_reader.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/plain_failure.h"
#include "utf8.h"

namespace edgec::text {
namespace {

std::vector<std::string> checked(std::vector<std::string> stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) throw engine::Failure(EDGEC_REFUSED, "a stop string is empty");
  }
  return stops;
}

}  // namespace

ReplyReader::ReplyReader(const Notations& notations, std::vector<std::string> stops, bool reasoning)
    : notations_(notations),
      stop_(checked(std::move(stops))),
      kind_(reasoning ? PieceKind::kReasoning : PieceKind::kText) {
  if (reasoning && !notations.thinking) {
    throw engine::Failure(EDGEC_REFUSED, "the message begins with reasoning, and has no notation of it");
  }
}

// Each marker that may come now; of two that are equal, the last one counts.
std::vector<ReplyReader::Mark> ReplyReader::marks() const {
  const auto& thinking = notations_.thinking;
  const auto& calls = notations_.calls;
  if (kind_ == PieceKind::kReasoning) return {{thinking->close, PieceKind::kText, 0}};
  if (kind_ == PieceKind::kCall) {
    if (!calls->close.empty()) return {{calls->close, PieceKind::kText, 0}};
    return calls->many ? std::vector<Mark>{{calls->open, PieceKind::kCall, 0}} : std::vector<Mark>{};
  }
  std::vector<Mark> marks;
  for (const std::string& mark : notations_.dropped) marks.push_back({mark, PieceKind::kText, 0});
  if (calls && !calls->before.empty()) marks.push_back({calls->before, PieceKind::kText, 0});
  if (thinking) marks.push_back({thinking->open, PieceKind::kReasoning, 0});
  const bool may_call = calls && !(calls->alone && (!shown_.empty() || called_));
  if (may_call) marks.push_back({calls->open, PieceKind::kCall, 0});
  return marks;
}

// The marker that comes first in what is held; of two in one place, the longer one.
bool ReplyReader::find_mark(Mark& found) const {
  const auto order = [](const Mark& mark) {
    return std::make_tuple(mark.place, -static_cast<ptrdiff_t>(mark.text.size()));
  };
  bool any = false;
  for (Mark mark : marks()) {
    mark.place = held_.find(mark.text);
    if (mark.place == std::string::npos || (any && order(found) < order(mark))) continue;
    found = mark;
    any = true;
  }
  return any;
}

// Whether a marker is text: that of a call which must be all of the message, after something else.
bool ReplyReader::misplaced(const Mark& mark) const {
  const auto& calls = notations_.calls;
  const std::string_view before = std::string_view(held_).substr(0, mark.place);
  return calls && calls->alone && mark.text == calls->open && !stripped(before).empty();
}

void ReplyReader::feed(std::string_view text) {
  if (!is_utf8(text)) throw engine::Failure(EDGEC_REFUSED, "the text is not UTF-8");
  raw_ += text;
  held_ += text;
  Mark mark{};
  while (!stopped() && find_mark(mark)) {
    if (misplaced(mark)) {
      const std::string before = held_.substr(0, mark.place + mark.text.size());
      held_.erase(0, before.size());
      write(before);
    } else {
      turn(mark);
    }
  }
  if (kind_ == PieceKind::kCall || stopped()) return;
  size_t keep = 0;
  for (const Mark& each : marks()) keep = std::max(keep, overlap(held_, each.text));
  const std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  write(certain);
}

void ReplyReader::finish() {
  if (stopped()) return;
  const std::string held = std::exchange(held_, "");
  if (kind_ == PieceKind::kCall) {
    finish_call(held);
  } else {
    write(held);
  }
  if (!stopped()) show(stop_.flush());
}

// Finish what stands before a marker, and begin what follows it.
void ReplyReader::turn(const Mark& mark) {
  const std::string before = held_.substr(0, mark.place);
  held_.erase(0, mark.place + mark.text.size());
  if (kind_ == PieceKind::kCall) {
    finish_call(before);
  } else {
    write(before);
  }
  if (kind_ == PieceKind::kText && !stopped()) show(stop_.flush());
  if (kind_ == PieceKind::kReasoning) thought_end_ = raw_.size() - held_.size();
  space_.clear();
  begun_ = false;
  kind_ = mark.next;
}

void ReplyReader::finish_call(std::string_view body) {
  fresh_.push_back({PieceKind::kCall, std::string(body), calls_in(body)});
  called_ = true;
}

// The calls between two markers, of tools that there are, their values as the tools' schemas have them.
std::vector<ToolCall> ReplyReader::calls_in(std::string_view text) const {
  const CallBody& body = *notations_.calls->body;
  std::vector<ToolCall> calls;
  for (WrittenCall& call : body.read(text)) {
    const auto tool = notations_.tools.find(call.name);
    if (tool == notations_.tools.end()) throw NotACall("there is no tool " + call.name);
    JsonFields arguments = body.typed(std::move(call.arguments), tool->second);
    calls.push_back({std::move(call.name), json_of(fields_value(std::move(arguments)))});
  }
  return calls;
}

// Take text of the kind that is open; space at its ends is kept back until more of it comes.
void ReplyReader::write(std::string_view text) {
  const bool marked = notations_.thinking || notations_.calls;
  if (kind_ == PieceKind::kText && !marked) return show(stop_.feed(text));
  const std::string joined = space_ + std::string(text);
  const std::string_view whole = begun_ ? std::string_view(joined) : without_leading_space(joined);
  std::string body(without_trailing_space(whole));
  space_ = whole.substr(body.size());
  if (body.empty()) return;
  const std::string& earlier = kind_ == PieceKind::kText ? shown_ : reasoning_;
  if (!begun_ && !earlier.empty()) body.insert(0, "\n");
  begun_ = true;
  if (kind_ == PieceKind::kText) return show(stop_.feed(body));
  reasoning_ += body;
  fresh_.push_back({PieceKind::kReasoning, std::move(body), {}});
}

void ReplyReader::show(std::string text) {
  if (text.empty()) return;
  shown_ += text;
  fresh_.push_back({PieceKind::kText, std::move(text), {}});
}

bool ReplyReader::take(ReplyPiece& piece) {
  if (fresh_.empty()) return false;
  piece = std::move(fresh_.front());
  fresh_.pop_front();
  return true;
}

}  // namespace edgec::text
