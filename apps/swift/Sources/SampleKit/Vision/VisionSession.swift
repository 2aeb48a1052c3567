
/// Keeps track of the tokens in the cache and of the images among them, and feeds the decoder to make it hold others.
final class Session {
    /// What a prompt has only in pieces.
    static let pieced = "tools and images"
    private let decoder: VisionDecoder
    private var cached: [Int] = []
    private var next: (tokens: [Int], images: [Pixels])?

    init(_ runtime: ModelRuntime, _ bundle: CheckedBundle) throws { decoder = try VisionDecoder(runtime, bundle) }

    /// The tokens of a text about images, which are decoded and checked; `begin` lets the model see them.
    ///
    /// - Parameter rendered: a chat template wrote the text.
    func prompt(
        _ text: String, _ images: [ModelImage], rendered: Bool, _ tokenization: Tokenization
    ) throws -> [Int] {
        next = nil
        // Before any is decoded: each takes a tile at least.
        if images.count > (ModelLimits.context - 1) / ImageLimits.tileTokens {
            throw EdgecError.imagesTooMany("\(images.count) take more than its \(ModelLimits.context) tokens")
        }
        let pixels = try images.map { try ImageReader.pixels($0) }
        let isBegun = rendered && !VisionFacts.begins.isEmpty && text.utf8.starts(with: VisionFacts.begins.utf8)
        let written = try decoder.vision.write(text, pixels)
        let takesSpecial = VisionFacts.specialTokens && !isBegun
        let tokens = takesSpecial ? tokenization.encode(written) : tokenization.encode(plain: written)
        next = (tokens, pixels)
        return tokens
    }

    /// The tokens of a conversation with its images, in the pieces of a prompt.
    func prompt(_ messages: [ChatMessage], _ pieces: PromptPieces, _ tokenization: Tokenization) throws -> [Int] {
        let images = messages.flatMap(\.images), text = try pieces.render(messages)
        if images.isEmpty { return tokenization.encode(plain: text) }
        return try prompt(text, images, rendered: true, tokenization)
    }

    /// Begin an answer: the images of its prompt take their places, and those of an earlier one are forgotten.
    func begin(_ prompt: [Int], isolation: isolated (any Actor)?) async throws {
        let images = next?.tokens == prompt ? next?.images ?? [] : []
        next = nil
        try check(prompt)
        keep(try await decoder.begin(prompt, images, isolation: isolation))
    }

    /// The same for the prompt of a golden vector, whose image is a made-up tile.
    func beginProbe(_ prompt: [Int], isolation: isolated (any Actor)?) async throws {
        if !prompt.contains(VisionFacts.imageToken) { return try await begin(prompt, isolation: isolation) }
        try check(prompt)
        keep(try await decoder.beginProbe(prompt, isolation: isolation))
    }

    /// Make the cache hold `tokens`, without recomputing the leading ones that it holds already.
    ///
    /// - Returns: the logits after the last token.
    func prefill(_ tokens: [Int], isolation: isolated (any Actor)?) async throws -> [Float] {
        try check(tokens)
        cached.removeSubrange(reusable(tokens)...)
        var logits: [Float] = []
        while cached.count < tokens.count {
            try Task.checkCancellation()
            let start = cached.count
            let end = start + (try decoder.callSize(start, tokens.count))
            // A call that fails may have changed what cannot be taken back.
            if !CacheFacts.canRewind { cached = [] }
            logits = try await decoder.logits(Array(tokens[start..<end]), start: start, isolation: isolation)
            cached = Array(tokens[..<end])
        }
        return logits
    }

    /// Refuse a name: the artifact of a model that takes images has no functions under adapters. Nil starts over.
    func useFunctions(under adapter: String?) throws {
        if adapter != nil { throw EdgecError.adapterRefused("this artifact has no functions under adapters") }
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

    private func check(_ tokens: [Int]) throws {
        if tokens.isEmpty { throw EdgecError.promptEmpty }
        let known = 0..<ModelLimits.vocabulary
        if let odd = tokens.first(where: { !known.contains($0) }) { throw EdgecError.tokenUnknown(odd) }
        if tokens.count > ModelLimits.context {
            throw EdgecError.promptTooLong(tokens: tokens.count, context: ModelLimits.context)
        }
    }

    private func keep(_ tokens: Int) {
        if tokens < cached.count { cached.removeSubrange((CacheFacts.canRewind ? tokens : 0)...) }
    }
}
