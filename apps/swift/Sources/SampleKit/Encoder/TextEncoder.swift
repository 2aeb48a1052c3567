import Foundation
import Tokenizers

/// A text's tokens, and how many of the first belong to a prompt that is read and not pooled.
struct ReadText: Sendable {
    let tokens: [Int]
    let unpooled: Int
}

/// Reads texts as the model's authors do: tokens, cut where asked, padded where the artifact has one length.
struct TextEncoder {
    private let tokenizer: any Tokenizer

    /// The bundle's tokenizer in swift-transformers.
    init(_ bundle: URL) async throws {
        tokenizer = try await AutoTokenizer.from(modelFolder: bundle.appending(path: "tokenizer"))
    }

    /// Token ids of a text, with those around it.
    func encode(_ text: String) -> [Int] { tokenizer.encode(text: text) }

    /// The tokens of a text that count, after those of the prompt of that name.
    func read(_ text: String, truncate: Bool, promptName: String?) throws -> ReadText {
        let (before, unpooled) = try Self.prompt(promptName)
        let tokens = encode(before + text)
        if tokens.count <= unpooled { throw EdgecError.textEmpty }
        if tokens.count <= EncoderLimits.mostTokens { return ReadText(tokens: tokens, unpooled: unpooled) }
        if !truncate { throw EdgecError.textTooLong(tokens: tokens.count, most: EncoderLimits.mostTokens) }
        return ReadText(tokens: Self.cut(tokens), unpooled: unpooled)
    }

    /// The prompt of a name, the default's where there is none, and no prompt for an empty one.
    private static func prompt(_ given: String?) throws -> (text: String, unpooled: Int) {
        guard let name = given ?? EncoderLimits.defaultPrompt, !name.isEmpty else { return ("", 0) }
        guard let text = EncoderLimits.prompts[name] else { throw EdgecError.promptUnknown(name) }
        return (text, EncoderFacts.unpooled[name] ?? 0)
    }

    /// The inputs of the artifact for a text that `read` gave.
    func inputs(_ text: ReadText) throws -> [InputTensor] {
        let (tokens, unpooled) = (text.tokens, text.unpooled)
        let length = EncoderFacts.isPadded ? EncoderLimits.mostTokens : tokens.count
        let spare = length - tokens.count
        let ids = tokens + Array(repeating: EncoderFacts.padding, count: spare)
        let mask =
            Array(repeating: EncoderFacts.readOnly, count: unpooled)
            + Array(repeating: 1, count: tokens.count - unpooled) + Array(repeating: 0, count: spare)
        return try ModelFacts.methods[0].inputs.map { facts in
            try InputTensor(facts, .integers(facts.name == "input_ids" ? ids : mask), shape: [1, length])
        }
    }

    /// The tokens around the text stay; its own are cut at one end.
    private static func cut(_ tokens: [Int]) -> [Int] {
        let (before, after) = (EncoderFacts.tokensBefore, EncoderFacts.tokensAfter)
        let own = tokens[before..<(tokens.count - after)]
        let count = max(EncoderLimits.mostTokens - before - after, 0)
        let kept = EncoderFacts.cutsBeginning ? own.suffix(count) : own.prefix(count)
        return Array(tokens.prefix(before) + kept + tokens.suffix(after))
    }
}
