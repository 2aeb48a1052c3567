import Tokenizers

/// The tokenizer of the tiny models, whose every token is a word of its own: token 7 is "w7".
struct NumberTokenizer: Tokenizers.Tokenizer {
    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { [] }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] { [] }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String { tokens.map { "w\($0)" }.joined(separator: " ") }
    func convertTokenToId(_ token: String) -> Int? { nil }
    func convertIdToToken(_ id: Int) -> String? { nil }
    var bosToken: String? { nil }
    var bosTokenId: Int? { nil }
    var eosToken: String? { nil }
    var eosTokenId: Int? { nil }
    var unknownToken: String? { nil }
    var unknownTokenId: Int? { nil }
}
