private let facts: EncoderPart = FactsFile.part("encoder")

/// What the sentence encoder reads and gives, as its bundle says.
public enum EncoderLimits {
    /// The most tokens of a text that count, with those that the tokenizer puts around it.
    public static let mostTokens = facts.mostTokens
    /// Values of a text's vector.
    public static let width = facts.width
    /// What the model's authors put before a text, by name.
    public static let prompts = facts.prompts
    /// The name of the prompt that is used where none is given.
    public static let defaultPrompt = facts.defaultPrompt
}

enum EncoderFacts {
    /// Whether the artifact takes `mostTokens` tokens only, so that shorter texts are padded.
    static let isPadded = facts.isPadded
    /// The token that fills the rest, which the mask hides.
    static let padding = facts.padding
    /// Tokens that the tokenizer puts before and after every text; they stay when a text is cut.
    static let tokensBefore = facts.tokensBefore
    static let tokensAfter = facts.tokensAfter
    /// Whether a text that is cut loses its beginning.
    static let cutsBeginning = facts.cutsBeginning
    /// How many tokens of a prompt the model reads without pooling them, by the prompt's name.
    static let unpooled = facts.unpooled
    /// What the mask says of such a token.
    static let readOnly = facts.readOnly
}

private struct EncoderPart: Decodable {
    let mostTokens, width, padding, tokensBefore, tokensAfter, readOnly: Int
    let isPadded, cutsBeginning: Bool
    let prompts: [String: String]
    let defaultPrompt: String?
    let unpooled: [String: Int]
}
