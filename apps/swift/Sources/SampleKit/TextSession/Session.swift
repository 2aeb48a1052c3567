
/// Keeps track of the tokens in the cache, and feeds the decoder to make it hold others.
final class Session {
    /// What a prompt has only in pieces.
    static let pieced = "tools"
    private let decoder: any Decoder
    private var cached: [Int] = []

    init(_ runtime: ModelRuntime, _ bundle: CheckedBundle) throws { decoder = try ModelDecoder(runtime) }

    /// The tokens of a conversation in the pieces of a prompt.
    func prompt(_ messages: [ChatMessage], _ pieces: PromptPieces, _ tokenization: Tokenization) throws -> [Int] {
        tokenization.encode(plain: try pieces.render(messages))
    }

    /// Begin an answer: there are no images that take their places in the prompt.
    func begin(_ prompt: [Int], isolation: isolated (any Actor)?) async throws {}

    /// The same for the prompt of a golden vector.
    func beginProbe(_ prompt: [Int], isolation: isolated (any Actor)?) async throws {}

    /// Make the cache hold `tokens`, without recomputing the leading ones that it holds already.
    ///
    /// - Returns: the logits after the last token.
    func prefill(_ tokens: [Int], isolation: isolated (any Actor)?) async throws -> [Float] {
        if tokens.isEmpty { throw EdgecError.promptEmpty }
        let known = 0..<ModelLimits.vocabulary
        if let odd = tokens.first(where: { !known.contains($0) }) { throw EdgecError.tokenUnknown(odd) }
        if tokens.count > ModelLimits.context {
            throw EdgecError.promptTooLong(tokens: tokens.count, context: ModelLimits.context)
        }
        cached.removeSubrange(reusable(tokens)...)
        var logits: [Float] = []
        while cached.count < tokens.count {
            try Task.checkCancellation()
            let start = cached.count
            let end = min(start + ModelLimits.prefillChunk, tokens.count)
            // A call that fails may have changed what cannot be taken back.
            if !CacheFacts.canRewind { cached = [] }
            logits = try await decoder.logits(Array(tokens[start..<end]), start: start, isolation: isolation)
            cached = Array(tokens[..<end])
        }
        return logits
    }

    /// Call the artifact's functions under an adapter from now on, and start over; nil: those of the model as it is.
    func useFunctions(under adapter: String?) throws {
        try decoder.useFunctions(under: adapter)
        reset()
    }

    /// Start over; positions hide what the cache holds until it is overwritten.
    func reset() { cached = [] }

    /// Leading tokens that need not be fed; at least one always is, since only feeding gives logits.
    func reusable(_ tokens: [Int]) -> Int {
        let common = zip(cached, tokens).prefix { $0 == $1 }.count
        let kept = max(0, min(common, tokens.count - 1))
        return CacheFacts.canRewind || kept == cached.count ? kept : 0
    }
}

extension EdgecModel {
    /// The tokens of a conversation after the bundle's system prompt.
    func prompt(_ messages: [ChatMessage]) throws -> [Int] { try tokenization.encode(afterSystemPrompt: messages) }
}
