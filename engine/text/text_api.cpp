#include "edgec/text.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "notations.h"
#include "reply_reader.h"
#include "text_border.h"
#include "text_stream.h"
#include "thinking_rule.h"

using edgec::text::Decode;
using edgec::text::Failure;
using edgec::text::NotACall;
using edgec::text::Notations;
using edgec::text::ReplyPiece;
using edgec::text::ReplyReader;
using edgec::text::TextStream;
using edgec::text::ThinkingRule;
using edgec::text::guarded;
using edgec::text::require;
using edgec::text::require_array;

struct EdgecTextStream {
  TextStream stream;
  std::string text;  // the last one that was given
};

struct EdgecNotations {
  Notations notations;
};

struct EdgecReply {
  ReplyReader reader;
  ReplyPiece piece;  // the last one that was given
  std::vector<EdgecToolCall> calls;  // likewise
};

struct EdgecThinking {
  ThinkingRule rule;
};

namespace {

const Notations kNoNotations;

EdgecString string_of(const std::string& text) { return {text.c_str(), text.size()}; }

Decode decode_of(EdgecDecode decode, void* context) {
  require(reinterpret_cast<const void*>(decode), "decode");
  return [=](const int64_t* tokens, size_t count) {
    EdgecString text{nullptr, 0};
    const bool fine = decode(context, tokens, count, &text) == EDGEC_OK && (text.text != nullptr || text.bytes == 0);
    if (!fine) throw Failure(EDGEC_FAILED, "the tokens could not be decoded");
    return std::string(text.text == nullptr ? "" : text.text, text.bytes);
  };
}

// Make a handle; null where that fails.
template <typename Handle, typename Make>
Handle* opened(Make&& make, char* error, size_t capacity) {
  std::unique_ptr<Handle> made;
  guarded([&] { made.reset(make()); }, error, capacity);
  return made.release();
}

// Run `body`, which may read calls.
template <typename Body>
int reading(Body&& body, char* error, size_t capacity) {
  const auto read = [&] {
    try {
      body();
    } catch (const NotACall& refusal) {
      throw Failure(EDGEC_MALFORMED_CALL, refusal.what());
    }
  };
  return guarded(read, error, capacity);
}

}  // namespace

EdgecTextStream* edgec_text_stream_open(
    EdgecDecode decode, void* context, const int64_t* prompt, size_t count, char* error, size_t capacity) {
  const auto make = [&] {
    require_array(prompt, count, "the prompt");
    return new EdgecTextStream{TextStream(decode_of(decode, context), prompt, count), ""};
  };
  return opened<EdgecTextStream>(make, error, capacity);
}

void edgec_text_stream_close(EdgecTextStream* stream) { delete stream; }

int edgec_text_stream_push(EdgecTextStream* stream, int64_t token, EdgecString* text, char* error, size_t capacity) {
  const auto push = [&] {
    require(stream, "the stream");
    require(text, "the text");
    stream->text = stream->stream.push(token);
    *text = string_of(stream->text);
  };
  return guarded(push, error, capacity);
}

int edgec_text_stream_flush(EdgecTextStream* stream, EdgecString* text, char* error, size_t capacity) {
  const auto flush = [&] {
    require(stream, "the stream");
    require(text, "the text");
    stream->text = stream->stream.flush();
    *text = string_of(stream->text);
  };
  return guarded(flush, error, capacity);
}

EdgecNotations* edgec_notations_read(const char* facts, size_t bytes, char* error, size_t capacity) {
  const auto make = [&] {
    require(facts, "the facts");
    return new EdgecNotations{edgec::text::read_notations({facts, bytes})};
  };
  return opened<EdgecNotations>(make, error, capacity);
}

void edgec_notations_close(EdgecNotations* notations) { delete notations; }

EdgecReply* edgec_reply_open(
    const EdgecNotations* notations, const EdgecString* stops, size_t stop_count, int reasoning, char* error,
    size_t capacity) {
  const auto make = [&] {
    require_array(stops, stop_count, "the stop strings");
    std::vector<std::string> texts;
    for (size_t stop = 0; stop < stop_count; ++stop) {
      require_array(stops[stop].text, stops[stop].bytes, "a stop string");
      texts.emplace_back(stops[stop].bytes == 0 ? "" : stops[stop].text, stops[stop].bytes);
    }
    const Notations& known = notations == nullptr ? kNoNotations : notations->notations;
    return new EdgecReply{ReplyReader(known, std::move(texts), reasoning != 0), {}, {}};
  };
  return opened<EdgecReply>(make, error, capacity);
}

void edgec_reply_close(EdgecReply* reply) { delete reply; }

int edgec_reply_feed(EdgecReply* reply, const char* text, size_t bytes, char* error, size_t capacity) {
  const auto feed = [&] {
    require(reply, "the reply");
    require_array(text, bytes, "the text");
    if (bytes > 0) reply->reader.feed({text, bytes});
  };
  return reading(feed, error, capacity);
}

int edgec_reply_finish(EdgecReply* reply, char* error, size_t capacity) {
  const auto finish = [&] {
    require(reply, "the reply");
    reply->reader.finish();
  };
  return reading(finish, error, capacity);
}

int edgec_reply_piece(EdgecReply* reply, EdgecPiece* piece) {
  if (reply == nullptr || piece == nullptr || !reply->reader.take(reply->piece)) return 0;
  reply->calls.clear();
  for (const auto& call : reply->piece.calls) reply->calls.push_back({string_of(call.name), string_of(call.arguments)});
  const auto kind = static_cast<int32_t>(reply->piece.kind);
  *piece = {kind, string_of(reply->piece.text), reply->calls.data(), reply->calls.size()};
  return 1;
}

void edgec_reply_state(EdgecReply* reply, EdgecReplyState* state) {
  if (reply == nullptr || state == nullptr) return;
  const ReplyReader& reader = reply->reader;
  *state = {
      string_of(reader.shown()), string_of(reader.reasoning()), string_of(reader.raw()), reader.thought_end(),
      reader.stopped_by()};
}

EdgecThinking* edgec_thinking_open(
    const EdgecNotations* notations, EdgecDecode decode, void* context, int32_t phase, int64_t budget, char* error,
    size_t capacity) {
  const auto make = [&] {
    if (phase < EDGEC_MAY_THINK || phase > EDGEC_ANSWERS) throw Failure(EDGEC_REFUSED, "there is no such phase");
    const Notations& known = notations == nullptr ? kNoNotations : notations->notations;
    return new EdgecThinking{
        ThinkingRule(known, decode_of(decode, context), static_cast<ThinkingRule::Phase>(phase), budget)};
  };
  return opened<EdgecThinking>(make, error, capacity);
}

void edgec_thinking_close(EdgecThinking* thinking) { delete thinking; }

void edgec_thinking_next(const EdgecThinking* thinking, EdgecThinkingNext* next) {
  if (thinking == nullptr || next == nullptr) return;
  const ThinkingRule::Next known = thinking->rule.next();
  *next = {known.only, known.also, known.thinking, known.answer};
}

int edgec_thinking_gives(const EdgecThinking* thinking, int64_t token, int allowed) {
  return thinking != nullptr && thinking->rule.gives(token, allowed != 0);
}

int edgec_thinking_take(
    EdgecThinking* thinking, int64_t token, int given, int32_t* begins, char* error, size_t capacity) {
  const auto take = [&] {
    require(thinking, "the rule");
    require(begins, "begins");
    *begins = thinking->rule.take(token, given != 0);
  };
  return guarded(take, error, capacity);
}
