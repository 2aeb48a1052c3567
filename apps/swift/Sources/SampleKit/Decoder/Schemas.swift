import Foundation

/// A JSON Schema that the bundle ships, which answers can be held to.
///
/// There is a constant for each schema that edgec's engine holds answers to; other runtimes hold answers to none.
public struct ModelSchema: Hashable, Sendable {
    public let name: String

    init(_ name: String) { self.name = name }
}

extension EdgecModel {
    /// Answer a text with a value: the answer is held to a schema of the bundle, and decoded from its JSON.
    ///
    /// Throws `EdgecError.answerUnfinished` where the tokens run out before the JSON is whole, and `DecodingError` where
    /// the schema allows what the type does not take.
    public nonisolated func generate<Value: Decodable & Sendable>(
        prompt: String, options: GenerationOptions = GenerationOptions(), as type: Value.Type, schema: ModelSchema
    ) async throws -> Value {
        let json = try await whole(options, schema) { $0.tokenization.encode(afterSystemPrompt: prompt) }
        return try JSONDecoder().decode(type, from: Data(json.utf8))
    }

    /// Answer a conversation with a value, as the same function for a text.
    public nonisolated func generate<Value: Decodable & Sendable>(
        messages: [ChatMessage], options: GenerationOptions = GenerationOptions(), as type: Value.Type,
        schema: ModelSchema
    ) async throws -> Value {
        let json = try await whole(options, schema) { try $0.prompt(messages) }
        return try JSONDecoder().decode(type, from: Data(json.utf8))
    }
}
