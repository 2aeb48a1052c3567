// Runs a generated package over the real engine, and prints what came of it: NAME=VALUE lines.
import Foundation
import KIT
import Tokenizers

/// The golden texts need the real tokenizer: here every one is accepted. This one knows one text, and what tokens write.
struct TableTokenizer: Tokenizers.Tokenizer {
    let asked: Asked

    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { text == asked.text ? asked.textTokens : [] }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] { encode(text: text) }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String {
        String(decoding: tokens.reduce(into: Data()) { $0 += asked.pieces[$1] }, as: UTF8.self)
    }
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
    let new, most, few: Int
    let adapter, text: String
    let textTokens: [Int]
    /// What each token writes, in base64.
    let pieces: [Data]
}

/// What the schema says, as an app has it.
struct Person: Codable, Sendable {
    let name: String
    let age: Int
    let pet: String
}

struct Pet: Decodable, Sendable { let pet: Int }

func generated(_ model: EdgecModel, _ prompt: [Int], _ new: Int) async throws -> [Int] {
    let options = GenerationOptions(maxNewTokens: new, repetitionPenalty: 1)
    return try await model.generate(tokens: prompt, options: options).reduce(into: []) { $0.append($1) }
}

/// Why a call failed.
func refusal(_ body: () async throws -> Void) async -> String {
    do {
        try await body()
        return "nothing"
    } catch {
        return "\(error)".replacingOccurrences(of: "\n", with: "\\n")
    }
}

/// The pieces of an answer under the schema.
func held(_ model: EdgecModel, _ asked: Asked, _ options: GenerationOptions) async throws -> [String] {
    try await model.generate(prompt: asked.text, options: options, schema: .person).reduce(into: []) { $0.append($1) }
}

func show(_ name: String, _ text: String) {
    print("\(name)=\(text.replacingOccurrences(of: "\n", with: "\\n"))")
}

/// What a text is answered with under a schema, in pieces, as a value, drawn, under an adapter, and by tokens.
func tellSchema(_ model: EdgecModel, _ asked: Asked, _ prompt: [Int]) async throws {
    let options = GenerationOptions(maxNewTokens: asked.most, repetitionPenalty: 1)
    let pieces = try await held(model, asked, options)
    show("held", pieces.joined())
    print("held finish=\(await model.lastFinish?.rawValue ?? "none") \(pieces.count > 5)")
    let value = try await model.generate(prompt: asked.text, options: options, as: Person.self, schema: .person)
    show("held value", String(decoding: try JSONEncoder().encode(value), as: UTF8.self))
    func tokens() async throws -> [Int] {
        try await model.generate(tokens: prompt, options: options, schema: .person).reduce(into: []) { $0.append($1) }
    }
    print("held tokens=\(try await tokens())")
    for seed in 0..<3 {
        let drawn = GenerationOptions(
            maxNewTokens: asked.most, temperature: 1.5, topK: 40, minP: 0.01, repetitionPenalty: 1, seed: UInt64(seed))
        show("drawn \(seed)", try await held(model, asked, drawn).joined())
    }
    try await model.useAdapter(URL(fileURLWithPath: asked.adapter))
    print("held adapted=\(try await tokens())")
    try await model.useAdapter(nil)
}

/// What is told of answers that are cut, and of schemas that cannot be used.
func tellRefusedSchemas(_ model: EdgecModel, _ asked: Asked, _ folder: URL, _ accepted: Set<String>) async throws {
    let few = GenerationOptions(maxNewTokens: asked.few, repetitionPenalty: 1)
    show("cut", try await held(model, asked, few).joined())
    print("cut finish=\(await model.lastFinish?.rawValue ?? "none")")
    func value<Value: Decodable & Sendable>(_ type: Value.Type, _ options: GenerationOptions) async -> String {
        await refusal {
            _ = try await model.generate(prompt: asked.text, options: options, as: type, schema: .person)
        }
    }
    print("unfinished=\(await value(Person.self, few))")
    let most = GenerationOptions(maxNewTokens: asked.most, repetitionPenalty: 1)
    print("other type=\(await value(Pet.self, most))")
    var stopped = most
    stopped.stop = ["a"]
    print("stopped schema=\(await value(Person.self, stopped))")
    let other = try await EdgecModel.load(LoadOptions(bundle: folder, acceptedTexts: accepted))
    let grammar = folder.appending(path: "schemas/person.grammar")
    let content = try Data(contentsOf: grammar)
    try content.dropLast().write(to: grammar)
    print("damaged schema=\(await refusal { _ = try await held(other, asked, most) })")
    try FileManager.default.removeItem(at: grammar)
    print("absent schema=\(await refusal { _ = try await held(other, asked, most) })")
}

let words = CommandLine.arguments
let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: words[1])))
let prompt = asked.prompt.map { Int($0)! }
AutoTokenizer.loaded = TableTokenizer(asked: asked)
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
try await tellSchema(model, asked, prompt)
try await tellRefusedSchemas(model, asked, URL(fileURLWithPath: words[3]), accepted)
print("free again=\(try await generated(model, prompt, asked.new))")
let second = try await EdgecModel.load(LoadOptions(acceptedTexts: accepted))
print("at once=\(try await (generated(model, prompt, 4), generated(second, prompt, 4)))")
do {
    _ = try await EdgecModel.load(LoadOptions(bundle: URL(fileURLWithPath: words[2]), acceptedTexts: accepted))
    print("broken=loaded")
} catch {
    print("broken=\(error)")
}
