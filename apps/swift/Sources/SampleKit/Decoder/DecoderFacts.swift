private let facts: DecoderPart = FactsFile.part("decoder")

/// The decoder's limits, as stated in its manifest.
public enum ModelLimits {
    /// Positions that the cache holds, for prompt and answer together.
    public static let context = facts.context
    /// Tokens that one call of the model takes.
    public static let prefillChunk = facts.prefillChunk
    /// Size of the vocabulary: logits per position.
    public static let vocabulary = facts.vocabulary
}

/// How texts of this model begin and end.
enum TextFacts {
    static let stopTokens = facts.stopTokens
    static let repetitionPenalty = facts.repetitionPenalty
    /// A system prompt that the bundle ships, and whether it opens a conversation or a plain text.
    static let systemPrompt = facts.systemPrompt
    static let systemPromptIsChat = facts.systemPromptIsChat
    static let hasChatTemplate = ModelFacts.hasChatTemplate
}

/// How the cache of keys and values behaves.
enum CacheFacts {
    /// Positions that may be written, including the padding of the last chunk.
    static let slots = facts.slots
    /// Whether earlier positions survive when later ones are written.
    static let canRewind = facts.canRewind
    /// Whether prefill and decode write the same cache; if not, every token goes through decode.
    static let methodsShareState = facts.methodsShareState
}

private struct DecoderPart: Decodable {
    let context, prefillChunk, vocabulary, slots: Int
    let stopTokens: Set<Int>
    let repetitionPenalty: Float
    let systemPrompt: String?
    let systemPromptIsChat, canRewind, methodsShareState: Bool
}
