
/// Whether a message's reasoning may still begin, is being written, or is over.
enum ThinkingPhase: String { case start, think, answer }

/// What holds the answer of a message of at most `tokens` tokens.
struct ConstrainedAnswer {
    let tokens: Int
    /// The answer is whole where what holds it is.
    let isText: Bool
    /// Begins an answer of at most so many tokens, after reasoning or without.
    let begin: (_ tokens: Int, _ thought: Bool) throws -> any ConstrainedText
}

/// Holds the reasoning of a message to a budget of tokens, and what follows it to an answer's structure; no awaited token
/// ends the message within the reasoning.
final class ThinkingRule: ConstrainedText {
    private let notation: ThinkingNotation?
    private let budget: Int?
    private let awaited: Set<Int>
    private let decode: ([Int]) -> String
    private let answer: ConstrainedAnswer?
    private var phase: ThinkingPhase
    private var run: [Int] = []
    private var thought = 0
    private var left: Int
    private var forced: ArraySlice<Int> = []
    private var held: (any ConstrainedText)?
    private var progress = TextProgress.open
    /// Whether what was written before it is known to be reasoning may be the answer.
    private var fits = true
    private var onwardFits = false

    init(
        _ notation: ThinkingNotation?, budget: Int?, phase: ThinkingPhase, awaited: Set<Int>, answer: ConstrainedAnswer? = nil,
        decode: @escaping ([Int]) -> String
    ) throws {
        self.notation = notation
        self.budget = budget
        self.phase = phase
        self.awaited = awaited
        self.answer = answer
        self.decode = decode
        left = answer?.tokens ?? 0
        if phase == .think { think() } else { try hold(thought: false) }
    }

    func mask(_ logits: inout [Float]) throws {
        if let next = forced.first {
            leaveOnly(next, &logits)
        } else if phase == .think {
            for token in awaited where logits.indices.contains(token) { logits[token] = -.infinity }
        } else if let held {
            if phase == .answer { try held.mask(&logits) } else { try maskFirst(&logits, held) }
        }
    }

    /// Allow what the answer may be, and the token that goes on with the marker of reasoning.
    private func maskFirst(_ logits: inout [Float], _ held: any ConstrainedText) throws {
        let onward = self.onward
        let own = onward.map { logits[$0] }
        if fits {
            try held.mask(&logits)
        } else {
            for token in logits.indices { logits[token] = -.infinity }
        }
        guard let onward, let own else { return }
        onwardFits = logits[onward] != -.infinity
        logits[onward] = own
    }

    private var onward: Int? {
        let path = notation?.openTokens ?? []
        return run.count < path.count && path.starts(with: run) ? path[run.count] : nil
    }

    func take(_ token: Int) throws -> TextProgress {
        left -= 1
        if !forced.isEmpty {
            forced.removeFirst()
            if forced.isEmpty { try endThought() }
        } else if phase == .think {
            try takeThought(token)
        } else if phase == .start {
            try takeFirst(token)
        } else if let held {
            progress = try held.take(token)
        }
        let inside = phase == .answer || (phase == .start && fits)
        return inside && (progress == .ended || answer?.isText == true) ? progress : .open
    }

    /// Take a token before it is known whether the message begins with reasoning.
    private func takeFirst(_ token: Int) throws {
        fits = held == nil || (fits && (token != onward || onwardFits))
        if fits, let held { progress = try held.take(token) }
        run.append(token)
        let text = decode(run).scalars.trimmedStart, open = (notation?.open ?? "").scalars
        if text.starts(with: open) {
            think()
        } else if !open.starts(with: text) {
            phase = .answer
            run = []
        } else if text.isEmpty {
            run = []
        }
    }

    private func takeThought(_ token: Int) throws {
        thought += 1
        let close = (notation?.close ?? "").scalars
        run = Array((run + [token]).suffix(close.count + 1))
        if decode(run).scalars.place(of: close) != nil { try endThought() } else { closeInTime() }
    }

    private func think() {
        phase = .think
        run = []
        (held, progress) = (nil, .open)
        closeInTime()
    }

    private func closeInTime() {
        if let budget, thought >= budget { forced = (notation?.closeTokens ?? [])[...] }
    }

    private func endThought() throws {
        phase = .answer
        run = []
        try hold(thought: true)
    }

    private func hold(thought: Bool) throws {
        (fits, progress) = (true, .open)
        held = try answer?.begin(max(left, 1), thought)
    }
}
