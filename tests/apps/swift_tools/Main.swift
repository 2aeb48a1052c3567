// Replies with tools over the real engine, in one notation after the other: JSON in, JSON out.
import Foundation
import Tokenizers

/// It knows the texts that are asked of it, and what each token writes.
struct TableTokenizer: Tokenizers.Tokenizer {
    let asked: Asked

    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { asked.texts[text] ?? [] }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] { encode(text: text) }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String {
        let shown = tokens.filter { !skipSpecialTokens || !asked.special.contains($0) }
        return String(decoding: shown.reduce(into: Data()) { $0 += asked.pieces[$1] }, as: UTF8.self)
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
    struct Step: Decodable {
        let choice, text: String
        let parallel, schema: Bool
        let budget: Int?
        let most: Int
    }

    let bundle: String
    let accepted: [String]
    let texts: [String: [Int]]
    let special: Set<Int>
    /// What each token writes, in base64.
    let pieces: [Data]
    /// The steps of each notation.
    let notations: [[Step]]
}

struct Said: Encodable {
    struct Call: Encodable { let name, arguments: String }

    var reasoning = "", text = "", finish = "", failed = ""
    var calls: [Call] = []
}

func choice(_ name: String) -> ToolChoice {
    switch name {
    case "auto": return .auto
    case "none": return .none
    case "required": return .required
    default: return .tool(name)
    }
}

func said(_ model: EdgecModel, _ step: Asked.Step) async throws -> Said {
    var said = Said()
    do {
        let stream = model.reply(
            to: [ChatMessage(.user, step.text)], options: GenerationOptions(maxNewTokens: step.most),
            thinkingBudget: step.budget, toolChoice: choice(step.choice), parallelCalls: step.parallel,
            schema: step.schema ? .person : nil)
        for try await _ in stream {}
    } catch EdgecError.malformedCall(let text, _) {
        said.failed = text
    }
    let finishes: [FinishReason: String] = [.endOfText: "eos", .length: "length", .complete: "complete"]
    said.finish = await model.lastFinish.flatMap { finishes[$0] } ?? ""
    guard let reply = await model.lastReply else { return said }
    (said.reasoning, said.text) = (reply.reasoning, reply.text)
    said.calls = reply.calls.map { Said.Call(name: $0.name, arguments: $0.arguments) }
    return said
}

func refusal(_ model: EdgecModel, _ options: GenerationOptions, _ choice: ToolChoice, tools: Bool?, _ schema: ModelSchema?) async -> String {
    do {
        let stream = model.reply(
            to: [ChatMessage(.user, "One day a dog")], options: options, tools: tools, toolChoice: choice, schema: schema)
        for try await _ in stream {}
        return "nothing"
    } catch { return "\(error)" }
}

struct Told: Encodable {
    let said: [[Said]]
    let refused: [String: String]
}

@main struct Main {
    static func main() async throws {
        let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: "asked.json")))
        AutoTokenizer.loaded = TableTokenizer(asked: asked)
        func load() async throws -> EdgecModel {
            let options = LoadOptions(bundle: URL(fileURLWithPath: asked.bundle), acceptedTexts: Set(asked.accepted))
            return try await EdgecModel.load(options)
        }
        var all: [[Said]] = []
        for (place, steps) in asked.notations.enumerated() {
            NotationUnderTest.place = place
            let model = try await load()
            var rows: [Said] = []
            for step in steps { rows.append(try await said(model, step)) }
            all.append(rows)
        }
        NotationUnderTest.place = 0
        let model = try await load(), few = GenerationOptions(maxNewTokens: 40)
        var stopped = few
        stopped.stop = ["a"]
        var refused = [
            "unknown tool": await refusal(model, few, .tool("absent"), tools: nil, nil),
            "no tools": await refusal(model, few, .required, tools: false, nil),
            "tools and a schema": await refusal(model, few, .auto, tools: true, .person),
            "stop texts": await refusal(model, stopped, .auto, tools: nil, .person),
        ]
        let grammar = URL(fileURLWithPath: "calls/0").appending(path: ReplyFacts.constrainedChoices["auto"]!)
        var content = try Data(contentsOf: grammar)
        content[content.count - 1] ^= 1
        try content.write(to: grammar)
        refused["changed"] = await refusal(try await load(), few, .auto, tools: nil, nil)
        try JSONEncoder().encode(Told(said: all, refused: refused)).write(to: URL(fileURLWithPath: "told.json"))
    }
}
