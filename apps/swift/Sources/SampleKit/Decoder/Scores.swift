import Foundation

/// How likely a text is after a prompt.
public struct ContinuationScore: Sendable, Equatable {
    public let text: String
    /// The sum of its tokens' log-probabilities, in nats, at most 0.
    public let logprob: Double
    /// How many it has; `logprob / Double(tokens)` compares texts of different lengths.
    public let tokens: Int
    /// Whether each token is the likeliest after those before it.
    public let greedy: Bool
}

extension EdgecModel {
    /// How likely each continuation is after the prompt, which is taken as it is; for choices among them.
    ///
    /// Prompt and continuation become tokens separately, so a continuation begins with the space that it needs. All are
    /// checked before the first is computed.
    public func score(prompt: String, continuations: [String]) async throws -> [ContinuationScore] {
        try await exclusively {
            let prompt = tokenization.encode(prompt)
            let read = continuations.map { (text: $0, ids: tokenization.encode(plain: $0)) }
            for one in read { try check(prompt, one.ids) }
            var scores: [ContinuationScore] = []
            for one in read { scores.append(try await scored(one.text, one.ids, after: prompt)) }
            return scores
        }
    }

    private func check(_ prompt: [Int], _ ids: [Int]) throws {
        if prompt.isEmpty { throw EdgecError.promptEmpty }
        if ids.isEmpty { throw EdgecError.textEmpty }
        let all = prompt.count + ids.count, known = 0..<ModelLimits.vocabulary
        if all > ModelLimits.context { throw EdgecError.promptTooLong(tokens: all, context: ModelLimits.context) }
        if let odd = ids.first(where: { !known.contains($0) }) { throw EdgecError.tokenUnknown(odd) }
    }

    private func scored(_ text: String, _ ids: [Int], after prompt: [Int]) async throws -> ContinuationScore {
        var tokens = prompt
        try await session.begin(prompt, isolation: self)
        var logprob = 0.0, greedy = true
        for id in ids {
            try Task.checkCancellation()
            let (one, isLikeliest) = Self.rated(id, try await session.prefill(tokens, isolation: self))
            logprob += one
            greedy = greedy && isLikeliest
            tokens.append(id)
        }
        return ContinuationScore(text: text, logprob: logprob, tokens: ids.count, greedy: greedy)
    }

    /// The logarithm of a token's probability, and whether it is the first of the likeliest.
    private static func rated(_ token: Int, _ logits: [Float]) -> (logprob: Double, isLikeliest: Bool) {
        var best = 0
        for (index, logit) in logits.enumerated() where logit > logits[best] { best = index }
        let most = Double(logits[best])
        let sum = logits.reduce(0.0) { $0 + exp(Double($1) - most) }
        return (Double(logits[token]) - most - log(sum), best == token)
    }
}
