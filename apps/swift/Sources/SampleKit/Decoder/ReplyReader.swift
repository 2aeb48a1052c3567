
/// Reads a message as it is written; markers, and the space around them, belong to none of the parts they separate.
struct ReplyReader {
    private enum Kind { case text, reasoning, call }

    private let thinking: ThinkingNotation?
    private let notation: CallNotation?
    private let dropped: [Scalars]
    private let read: (Scalars) throws -> [ToolCall]
    private var stop: StopText
    private var kind: Kind
    private var held: Scalars = []
    private var space: Scalars = []
    private var begun = false
    private var fresh: [ReplyPiece] = []
    /// The answer so far.
    private(set) var shown = ""
    private(set) var reasoning = ""
    /// All of the message with its markers.
    private(set) var raw: Scalars = []
    /// Where in `raw` the last reasoning ends, behind its marker.
    private(set) var thoughtEnd = 0
    private(set) var calls: [ToolCall] = []

    init(
        stops: [String], thinking: ThinkingNotation?, calls: CallNotation?, frame: [String], startsThinking: Bool,
        read: @escaping (Scalars) throws -> [ToolCall]
    ) {
        stop = StopText(stops)
        self.thinking = thinking
        notation = calls
        dropped = (frame + [calls?.before ?? ""]).filter { !$0.isEmpty }.map(\.scalars)
        kind = startsThinking ? .reasoning : .text
        self.read = read
    }

    /// Whether a stop text has ended the answer.
    var stopped: Bool { stop.hit != nil }

    /// Read more of the message; returns the pieces that became certain.
    mutating func feed(_ text: String) throws -> [ReplyPiece] {
        raw += text.scalars
        held += text.scalars
        while !stopped, let (mark, next, place) = firstMark() {
            if misplaced(mark, Scalars(held[..<place])) {
                write(Scalars(held[..<(place + mark.count)]))
                held.removeFirst(place + mark.count)
            } else {
                try turn(place, mark, next)
            }
        }
        if kind != .call && !stopped {
            let keep = marks().map { held.overlap($0.mark) }.max() ?? 0
            write(Scalars(held.dropLast(keep)))
            held = Scalars(held.suffix(keep))
        }
        return drained()
    }

    /// Read the last of the message, and what was held back.
    mutating func close(_ last: String) throws -> [ReplyPiece] {
        if stopped { return drained() }
        let pieces = try feed(last), rest = held
        held = []
        if kind == .call { try finishCall(rest) } else if !stopped { write(rest) }
        if !stopped { show(stop.flush()) }
        return pieces + drained()
    }

    /// The pieces that became certain since the last time.
    mutating func drained() -> [ReplyPiece] {
        defer { fresh = [] }
        return fresh
    }

    /// The marker that comes first; of two in one place, the longer one.
    private func firstMark() -> (Scalars, Kind, Int)? {
        let found = marks().compactMap { mark, next in held.place(of: mark).map { (mark, next, $0) } }
        return found.min { ($0.2, $1.0.count) < ($1.2, $0.0.count) }
    }

    /// Each marker that may come now, with the kind of what follows it.
    private func marks() -> [(mark: Scalars, next: Kind)] {
        switch kind {
        case .reasoning:
            guard let thinking else { return [] }
            return [(thinking.close.scalars, .text)]
        case .call:
            guard let notation else { return [] }
            if !notation.close.isEmpty { return [(notation.close.scalars, .text)] }
            return notation.many ? [(notation.open.scalars, .call)] : []
        case .text:
            var marks = dropped.map { (mark: $0, next: Kind.text) }
            if let thinking { marks.append((thinking.open.scalars, .reasoning)) }
            if let notation, !(notation.alone && !(shown.isEmpty && calls.isEmpty)) {
                marks.append((notation.open.scalars, .call))
            }
            return marks
        }
    }

    /// Whether a marker is text: that of a call which must be all of the message, after something else.
    private func misplaced(_ mark: Scalars, _ before: Scalars) -> Bool {
        guard let notation, notation.alone else { return false }
        return mark == notation.open.scalars && !before.trimmed.isEmpty
    }

    /// Finish what stands before a marker, and begin what follows it.
    private mutating func turn(_ place: Int, _ mark: Scalars, _ next: Kind) throws {
        let before = Scalars(held[..<place])
        held.removeFirst(place + mark.count)
        if kind == .call { try finishCall(before) } else { write(before) }
        if kind == .text && !stopped { show(stop.flush()) }
        if kind == .reasoning { thoughtEnd = raw.count - held.count }
        (space, begun, kind) = ([], false, next)
    }

    private mutating func finishCall(_ body: Scalars) throws {
        do {
            let new = try read(body)
            calls += new
            fresh.append(.calls(new, text: String(body)))
        } catch let fault as NotACall {
            throw EdgecError.malformedCall(text: String(raw), why: fault.why)
        }
    }

    /// Take text of the kind that is open; space at its ends is held back until more of it comes.
    private mutating func write(_ text: Scalars) {
        if kind == .text && thinking == nil && notation == nil { return show(stop.feed(String(text))) }
        let whole = begun ? space + text : (space + text).trimmedStart
        var body = whole.trimmedEnd
        space = Scalars(whole[body.count...])
        if body.isEmpty { return }
        let earlier = kind == .text ? shown : reasoning
        if !begun && !earlier.isEmpty { body.insert("\n", at: 0) }
        begun = true
        if kind == .text { return show(stop.feed(String(body))) }
        reasoning += String(body)
        fresh.append(.reasoning(String(body)))
    }

    private mutating func show(_ text: String) {
        if text.isEmpty { return }
        shown += text
        fresh.append(.text(text))
    }
}
