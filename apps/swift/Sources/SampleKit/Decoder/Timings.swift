
/// How long an answer took, measured in this process, from when its turn came.
public struct AnswerTimings: Sendable, Equatable {
    /// Tokens of the whole prompt.
    public let promptTokens: Int
    /// Those of them that the cache held already and that were not computed again.
    public let cachedTokens: Int
    public let newTokens: Int
    public let firstTokenMs: Double
    /// From the first token to the last; nil where there is only one.
    public let tokensPerSecond: Double?
}

/// Notes when tokens come.
struct Stopwatch {
    private let begin = ContinuousClock.now
    private var first: ContinuousClock.Instant?
    private var last: ContinuousClock.Instant?
    private var tokens = 0

    mutating func tokenCame() {
        let now = ContinuousClock.now
        first = first ?? now
        last = now
        tokens += 1
    }

    /// Nil before the first token.
    func timings(promptTokens: Int, cachedTokens: Int) -> AnswerTimings? {
        guard let first, let last else { return nil }
        let between = Self.seconds(from: first, to: last)
        return AnswerTimings(
            promptTokens: promptTokens, cachedTokens: cachedTokens, newTokens: tokens,
            firstTokenMs: 1000 * Self.seconds(from: begin, to: first),
            tokensPerSecond: tokens > 1 && between > 0 ? Double(tokens - 1) / between : nil)
    }

    private static func seconds(from begin: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Double {
        let parts = begin.duration(to: end).components
        return Double(parts.seconds) + Double(parts.attoseconds) * 1e-18
    }
}
