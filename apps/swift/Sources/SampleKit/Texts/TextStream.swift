import Foundation

/// Decodes token by token, without broken characters or lost spaces.
///
/// A few tokens before the new one are decoded with and without it; the difference is the new text.
struct TextStream {
    private static let windowTokens = 8
    private let decode: ([Int]) -> String
    private var window: [Int]
    private var shown: Int

    /// Begin after a prompt, whose end decides whether a leading space belongs to the text.
    init(after prompt: [Int], decode: @escaping ([Int]) -> String) {
        self.decode = decode
        window = prompt
        shown = window.count
        advance()
    }

    /// The text that a token completes; empty while a character is incomplete.
    mutating func push(_ token: Int) -> String {
        window.append(token)
        let text = pending()
        // The last code point, since some characters join with the one before them.
        if text.unicodeScalars.last == "\u{FFFD}" { return "" }
        if !text.isEmpty { advance() }
        return text
    }

    /// The text that an incomplete last character decodes to.
    mutating func flush() -> String {
        let text = pending()
        advance()
        return text
    }

    private func pending() -> String {
        let before = decode(Array(window.prefix(shown))).unicodeScalars.count
        return String(String.UnicodeScalarView(decode(window).unicodeScalars.dropFirst(before)))
    }

    /// Forget all but a few tokens; a window that began inside a character would decode to something else.
    private mutating func advance() {
        let whole = Array(decode(window).unicodeScalars), fresh = window.count - shown
        let latest = max(window.count - max(Self.windowTokens, fresh), 0)
        let starts = stride(from: latest, through: max(latest - Self.windowTokens, 0), by: -1)
        let fitting = starts.first { start in
            let text = Array(decode(Array(window[start...])).unicodeScalars)
            return whole.suffix(text.count).elementsEqual(text)
        }
        window = Array(window[(fitting ?? latest)...])
        shown = window.count
    }
}

/// A filter between the model's text and the reader that never lets any part of a stop text through.
///
/// It compares code points, so that the two tokens "\r" and "\n", or the two halves of a flag, are separate characters.
struct StopText {
    private let stops: [[Unicode.Scalar]]
    private var held: [Unicode.Scalar] = []
    private(set) var hit: String?

    init(_ stops: [String]) { self.stops = stops.map { Array($0.unicodeScalars) } }

    /// The text that is now safe to show; `hit` is set once a stop text is complete.
    mutating func feed(_ piece: String) -> String {
        let text = held + piece.unicodeScalars
        let matches = stops.compactMap { stop in Self.start(of: stop, in: text).map { (stop, $0 + stop.count) } }
        // The first to end wins; of two that end together, the longer one.
        if let (stop, end) = matches.min(by: { ($0.1, $1.0.count) < ($1.1, $0.0.count) }) {
            hit = Self.string(stop[...])
            held = []
            return Self.string(text[..<(end - stop.count)])
        }
        let keep = stops.map { Self.overlap(text, $0) }.max() ?? 0
        held = Array(text.suffix(keep))
        return Self.string(text.dropLast(keep))
    }

    /// The text that was held back, once no more will come.
    mutating func flush() -> String {
        defer { held = [] }
        return Self.string(held[...])
    }

    private static func start(of stop: [Unicode.Scalar], in text: [Unicode.Scalar]) -> Int? {
        text.indices.first { text[$0...].starts(with: stop) }
    }

    /// The length of the longest end of `text` with which `stop` begins.
    private static func overlap(_ text: [Unicode.Scalar], _ stop: [Unicode.Scalar]) -> Int {
        var length = min(stop.count - 1, text.count)
        while length > 0, !text.suffix(length).elementsEqual(stop.prefix(length)) { length -= 1 }
        return max(length, 0)
    }

    private static func string(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        String(String.UnicodeScalarView(scalars))
    }
}
