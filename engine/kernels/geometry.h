// The slots of a cache that hold the keys a query may see; the rules are those of ir/kv_layout.py.
#pragma once

#include <algorithm>
#include <cstdint>

namespace edgec {

// Keys that are consecutive both in slots and in positions.
struct Span {
  int64_t slot;
  int64_t position;
  int64_t count;
};

// The part [first, end) of a tile's keys that one query sees.
struct Seen {
  int first;
  int end;
};

struct Geometry {
  int64_t ring;    // slots that are overwritten in turn; 0: slot = position
  int64_t sink;    // positions that stay visible forever, in their own slots
  int64_t window;  // 0: all earlier positions; below 0: those of the query's own chunk of so many
  int64_t last;    // the newest position in the cache

  int64_t slot(int64_t position) const {
    return ring == 0 || position < sink ? position : sink + (position - sink) % ring;
  }

  // The first position, sinks aside, that a query at `position` sees; may lie before 0.
  int64_t first_seen(int64_t position) const {
    if (window == 0) return 0;
    return window > 0 ? position - window + 1 : position - position % -window;
  }

  // The part that a query at `position` sees of `count` keys from `first` on, all of them sinks or none.
  Seen seen(int64_t position, int64_t first, int64_t count) const {
    const int64_t end = std::clamp<int64_t>(std::min(position, last) - first + 1, 0, count);
    const bool forever = window == 0 || first < sink;
    const int64_t begin = forever ? 0 : std::clamp<int64_t>(first_seen(position) - first, 0, end);
    return {static_cast<int>(begin), static_cast<int>(end)};
  }
};

// All keys that queries at positions lowest..highest see, in order of their positions.
class Spans {
 public:
  // After the sinks they begin at a multiple of `aligned` slots, with keys that no query may see anymore.
  Spans(const Geometry& in, int64_t lowest, int64_t highest, int64_t aligned = 1) {
    const int64_t high = std::min(highest, in.last);
    int64_t from = std::max<int64_t>(0, in.first_seen(lowest));
    if (in.sink > 0) {
      add({0, 0, std::min(in.sink, high + 1)});
      from = std::max(from, in.sink);
    }
    if (in.ring > 0) from = std::max(from, in.last - in.ring + 1);
    from -= (in.slot(from) - in.sink) % aligned;
    while (from <= high) {
      const int64_t slot = in.slot(from);
      const int64_t room = in.ring > 0 ? in.sink + in.ring - slot : high - from + 1;
      add({slot, from, std::min(room, high - from + 1)});
      from += room;
    }
  }

  int64_t keys() const { return keys_; }

  // How many parts of at most `most` keys there are, none of which crosses the end of a span.
  int64_t parts(int64_t most) const {
    int64_t count = 0;
    for (int i = 0; i < size_; i++) count += (spans_[i].count + most - 1) / most;
    return count;
  }

  // The index-th part of at most `most` keys.
  Span part(int64_t index, int64_t most) const {
    int i = 0;
    for (; index >= (spans_[i].count + most - 1) / most; i++) index -= (spans_[i].count + most - 1) / most;
    const int64_t at = index * most;
    return {spans_[i].slot + at, spans_[i].position + at, std::min(most, spans_[i].count - at)};
  }

  // Calls use(span) for keys begin..end-1 of the whole sequence, cut into pieces of at most `most`.
  template <typename Use>
  void pieces(int64_t begin, int64_t end, int64_t most, Use use) const {
    int64_t before = 0;
    for (int i = 0; i < size_; i++) {
      const Span& span = spans_[i];
      const int64_t stop = std::min(span.count, end - before);
      for (int64_t at = std::max<int64_t>(0, begin - before); at < stop; at += most) {
        use(Span{span.slot + at, span.position + at, std::min(most, stop - at)});
      }
      before += span.count;
    }
  }

 private:
  void add(Span span) {
    if (span.count <= 0) return;
    spans_[size_++] = span;
    keys_ += span.count;
  }

  Span spans_[3];
  int size_ = 0;
  int64_t keys_ = 0;
};

}  // namespace edgec
