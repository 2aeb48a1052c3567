// Runs a generated package over the real engine, and prints what came of it: NAME=VALUE lines.
import Foundation
import KIT
import Tokenizers

/// The golden texts need the real tokenizer: here every one is accepted, and the model gets token ids.
struct NoTokenizer: Tokenizers.Tokenizer {
    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { [] }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] { [] }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String { "" }
    func convertTokenToId(_ token: String) -> Int? { nil }
    func convertIdToToken(_ id: Int) -> String? { nil }
    var bosToken: String? { nil }
    var bosTokenId: Int? { nil }
    var eosToken: String? { nil }
    var eosTokenId: Int? { nil }
    var unknownToken: String? { nil }
    var unknownTokenId: Int? { nil }
    func applyChatTemplate(messages: [Tokenizers.Message]) throws -> [Int] { [] }
}

struct Asked: Decodable {
    let prompt, accepted: [String]
    let new: Int
    let adapter: String
}

func generated(_ model: EdgecModel, _ prompt: [Int], _ new: Int) async throws -> [Int] {
    let options = GenerationOptions(maxNewTokens: new, repetitionPenalty: 1)
    return try await model.generate(tokens: prompt, options: options).reduce(into: []) { $0.append($1) }
}

let words = CommandLine.arguments
let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: words[1])))
let prompt = asked.prompt.map { Int($0)! }
AutoTokenizer.loaded = NoTokenizer()
let accepted = Set(asked.accepted)
let model = try await EdgecModel.load(LoadOptions(acceptedTexts: accepted))
print("generated=\(try await generated(model, prompt, asked.new))")
print("again=\(try await generated(model, prompt, asked.new))")
try await model.useAdapter(URL(fileURLWithPath: asked.adapter))
print("adapted=\(try await generated(model, prompt, asked.new))")
do {
    try await model.useAdapter(URL(fileURLWithPath: words[1]))
} catch {
    print("refused=\(error) \(await model.adapter?.lastPathComponent ?? "none")")
}
try await model.useAdapter(nil)
print("without=\(try await generated(model, prompt, asked.new))")
let second = try await EdgecModel.load(LoadOptions(acceptedTexts: accepted))
print("at once=\(try await (generated(model, prompt, 4), generated(second, prompt, 4)))")
do {
    _ = try await EdgecModel.load(LoadOptions(bundle: URL(fileURLWithPath: words[2]), acceptedTexts: accepted))
    print("broken=loaded")
} catch {
    print("broken=\(error)")
}
