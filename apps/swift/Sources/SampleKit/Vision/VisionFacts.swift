private let facts: VisionPart = FactsFile.part("vision")

/// What images may be like.
public enum ImageLimits {
    /// Pixels of an image at most; larger ones are refused before they are decoded.
    public static let mostPixels = facts.mostPixels
    /// How many times one side may have the pixels of the other.
    public static let mostRatio = facts.mostRatio
    /// Tokens that each tile of an image takes of the context; an image has at least one tile.
    public static let tileTokens = facts.tileTokens
}

enum VisionFacts {
    /// Stands in a text for an image.
    static let placeholder = facts.placeholder
    /// The id that stands for each row of an image.
    static let imageToken = facts.imageToken
    /// The tokenizer adds its own tokens to a prompt with images, except to a chat template's that begins with `begins`.
    static let specialTokens = facts.specialTokens
    static let begins = facts.begins
    /// All of a prompt with images sees all of it, so that none of it can be continued from.
    static let wholePrompt = facts.wholePrompt
    /// Numbers in the tile of the bundle's golden vector.
    static let goldenValues = facts.goldenValues
}

private struct VisionPart: Decodable {
    let mostPixels, mostRatio, tileTokens, imageToken, goldenValues: Int
    let placeholder, begins: String
    let specialTokens, wholePrompt: Bool
}
