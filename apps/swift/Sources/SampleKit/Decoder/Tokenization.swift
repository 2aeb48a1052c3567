import Foundation
import Tokenizers

/// The bundle's tokenizer in swift-transformers.
struct Tokenization {
    private let tokenizer: any Tokenizer

    init(_ bundle: URL) async throws {
        tokenizer = try await AutoTokenizer.from(modelFolder: bundle.appending(path: "tokenizer"))
    }

    /// Token ids with the tokenizer's own leading tokens.
    func encode(_ text: String) -> [Int] { tokenizer.encode(text: text) }

    /// Token ids of a text after the bundle's system prompt.
    func encode(afterSystemPrompt text: String) -> [Int] {
        encode((TextFacts.systemPromptIsChat ? "" : TextFacts.systemPrompt ?? "") + text)
    }

    /// A conversation that begins with the bundle's system prompt unless it brings its own.
    func encode(afterSystemPrompt messages: [ChatMessage]) throws -> [Int] { try encode(opened(messages)) }

    func opened(_ messages: [ChatMessage]) -> [ChatMessage] {
        guard TextFacts.systemPromptIsChat, let prompt = TextFacts.systemPrompt, messages.first?.role != .system
        else { return messages }
        return [ChatMessage(.system, prompt)] + messages
    }

    /// Token ids of a text that is a rendered prompt already.
    func encode(plain text: String) -> [Int] { tokenizer.encode(text: text, addSpecialTokens: false) }

    /// The text of token ids with the markers of the template's notations, and without other special tokens.
    func decodeMarked(_ tokens: [Int]) -> String {
        let shown = tokens.filter { token in !ReplyFacts.hidden.contains { $0.contains(token) } }
        return tokenizer.decode(tokens: shown, skipSpecialTokens: false)
    }

    func decode(_ tokens: [Int]) -> String { tokenizer.decode(tokens: tokens, skipSpecialTokens: true) }

    /// A conversation up to where the assistant answers.
    func encode(_ messages: [ChatMessage], switches: [String: Bool] = [:]) throws -> [Int] {
        if !TextFacts.hasChatTemplate { throw EdgecError.noChatTemplate }
        let rendered: [Tokenizers.Message] = messages.map { ["role": $0.role.rawValue, "content": $0.content] }
        if switches.isEmpty { return try tokenizer.applyChatTemplate(messages: rendered) }
        return try tokenizer.applyChatTemplate(messages: rendered, tools: nil, additionalContext: switches)
    }
}
