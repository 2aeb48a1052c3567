import Foundation
import Tokenizers

/// The words of a bundle's tokenizer, as its file has them.
struct Words: Decodable {
    let vocabulary: [String: Int]
    let added: [String]
    let special: Set<Int>
    let unknown: Int
    let leading: [Int]
}

/// The tokenizer of the tiny models: words between spaces, and added tokens anywhere.
struct WordTokenizer: Tokenizers.Tokenizer {
    let known: Words
    let added: [[UInt8]]
    let words: [Int: String]

    init(_ known: Words) {
        self.known = known
        added = known.added.map { Array($0.utf8) }.sorted { $0.count > $1.count }
        words = Dictionary(uniqueKeysWithValues: known.vocabulary.map { ($1, $0) })
    }

    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { encode(text: text, addSpecialTokens: true) }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] {
        var ids = addSpecialTokens ? known.leading : []
        var rest = Array(text.utf8)[...]
        var word: [UInt8] = []
        func end() {
            if !word.isEmpty { ids.append(id(word)) }
            word = []
        }
        while let byte = rest.first {
            let start = rest
            if let mark = added.first(where: { $0.first == byte && start.starts(with: $0) }) {
                end()
                ids.append(id(mark))
                rest = rest.dropFirst(mark.count)
            } else {
                if byte == 32 { end() } else { word.append(byte) }
                rest = rest.dropFirst()
            }
        }
        end()
        return ids
    }
    private func id(_ bytes: [UInt8]) -> Int { known.vocabulary[String(decoding: bytes, as: UTF8.self)] ?? known.unknown }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String {
        let shown = tokens.filter { !skipSpecialTokens || !known.special.contains($0) }
        return shown.compactMap { words[$0] }.joined(separator: " ")
    }
    func convertTokenToId(_ token: String) -> Int? { nil }
    func convertIdToToken(_ id: Int) -> String? { nil }
    var bosToken: String? { nil }
    var bosTokenId: Int? { nil }
    var eosToken: String? { nil }
    var eosTokenId: Int? { nil }
    var unknownToken: String? { nil }
    var unknownTokenId: Int? { nil }
}
