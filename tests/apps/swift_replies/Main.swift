import ExecuTorch
import Foundation
import Tokenizers

/// Messages of every notation, budgets and conversations over cases whose results Python knows.
struct Cases: Decodable {
    struct Message: Decodable {
        let notation: Int
        let pieces, stops: [String]
        let thinking: Bool
    }
    struct Budget: Decodable {
        let phase, answer: String
        let budget: Int?
        let open, close, awaited, wanted: [Int]
    }
    struct Said: Decodable { let prompt, answer: String }
    struct Step: Decodable {
        let name: String
        let talk: [[String]]
        let budget: Int?
        let tools: Bool
        let maxNewTokens: Int
    }
    struct Talks: Decodable {
        let scripts: [Said]
        let steps: [Step]
    }

    let messages: [Message]
    let budgets: [Budget]
    let tokens: [String]
    let allowed: [[Int]]
    let talks: Talks
}

struct Read: Encodable {
    let pieces: [[String]]
    let reasoning, text: String
    let calls: [[String]]
    let failed: String
}

struct Replied: Encodable {
    let reasoning, text: String
    let calls: [[String]]
    let finish, error: String
}

struct Facts: Encodable {
    let messages: [Read]
    let budgets: [[Int]]
    let talks: [String: Replied]
}

/// Every row of the table of notations.
private enum Rows {
    private struct Part: Decodable {
        struct Frame: Decodable { let marks: [String] }
        let thinking: [ThinkingNotation?]
        let calls: [CallNotation?]
        let frames: [Frame]
        let tools: [String: Set<String>]
    }
    private static let part: Part = try! FactsFile.part(
        "notations", of: try! Data(contentsOf: URL(fileURLWithPath: "notations.json")))
    static let thinking: [ThinkingNotation?] = part.thinking
    static let calls: [CallNotation?] = part.calls
    static let frames: [[String]] = part.frames.map(\.marks)
    static let tools: [String: Set<String>] = part.tools
}

private struct Pieces {
    var all: [[String]] = []

    mutating func add(_ pieces: [ReplyPiece]) {
        for piece in pieces {
            switch piece {
            case .reasoning(let text): add("reasoning", text)
            case .text(let text): add("text", text)
            case .calls(_, let text): all.append(["call", text])
            }
        }
    }

    private mutating func add(_ kind: String, _ text: String) {
        if let last = all.last, last[0] == kind { all[all.count - 1][1] += text } else { all.append([kind, text]) }
    }
}

extension Cases.Message {
    func read() throws -> Read {
        let calls = Rows.calls[notation]
        var reader = ReplyReader(
            stops: stops, thinking: Rows.thinking[notation], calls: calls, frame: Rows.frames[notation],
            startsThinking: thinking
        ) { try calls?.read($0, of: Rows.tools) ?? [] }
        var said = Pieces(), failed = ""
        do {
            for piece in pieces where !reader.stopped { said.add(try reader.feed(piece)) }
            said.add(try reader.close(""))
        } catch EdgecError.malformedCall(let text, _) {
            failed = text
        }
        said.add(reader.drained())
        let made = reader.calls.map { [$0.name, $0.arguments] }
        return Read(pieces: said.all, reasoning: reader.reasoning, text: reader.shown, calls: made, failed: failed)
    }
}

extension Cases.Budget {
    func held(_ tokens: [String], _ allowed: [[Int]]) throws -> [Int] {
        let notation = ThinkingNotation(open: "<think>", close: "</think>", openTokens: open, closeTokens: close)
        let held = ConstrainedAnswer(tokens: 99, isText: answer == "text") { _, thought in
            Answer(allowed, thought ? 1 : 0, eos: tokens.count - 1)
        }
        let rule = try ThinkingRule(
            notation, budget: budget, phase: ThinkingPhase(rawValue: phase)!, awaited: Set(awaited),
            answer: answer == "free" ? nil : held
        ) { $0.map { tokens[$0] }.joined() }
        var said: [Int] = [], progress = TextProgress.open
        for token in wanted {
            var logits = tokens.indices.map { $0 == token ? 1 : -Float($0) }
            try rule.mask(&logits)
            said.append(logits.indices.max { logits[$0] < logits[$1] }!)
            progress = try rule.take(said.last!)
            if progress == .ended || (answer != "free" && said.last == tokens.count - 1) { break }
        }
        return said + [Int(progress.rawValue)]
    }
}

/// The rule of an answer, whole after two tokens and over after four; after reasoning the first row is left out.
private final class Answer: ConstrainedText {
    private let allowed: [[Int]], first: Int, eos: Int
    private var count = 0

    init(_ allowed: [[Int]], _ first: Int, eos: Int) {
        (self.allowed, self.first, self.eos) = (allowed, first, eos)
    }

    private var may: [Int] { allowed[min(count + first, allowed.count - 1)] + (count >= 2 ? [eos] : []) }

    func mask(_ logits: inout [Float]) {
        for token in logits.indices where !may.contains(token) { logits[token] = -.infinity }
    }

    func take(_ token: Int) -> TextProgress {
        precondition(may.contains(token))
        count += 1
        return count >= 4 ? .ended : count >= 2 ? .whole : .open
    }
}

/// Leads the wrapper through conversations, each of which may hold the replies of earlier ones.
private struct Talks {
    let model: EdgecModel
    var replies: [String: Reply] = [:]

    mutating func answer(_ step: Cases.Step) async -> Replied {
        var said = Pieces(), error = ""
        do {
            let messages = step.talk.map { message($0) }
            let options = GenerationOptions(maxNewTokens: step.maxNewTokens)
            let stream = model.reply(to: messages, options: options, thinkingBudget: step.budget, tools: step.tools)
            for try await piece in stream { said.add([piece]) }
        } catch let fault as EdgecError {
            error = String(String(describing: fault).prefix { $0 != "(" })
        } catch { fatalError("\(error)") }
        let reply = await model.lastReply, finish = await model.lastFinish
        replies[step.name] = reply
        let shown = said.all.filter { $0[0] == "text" }.map { $0[1] }.joined()
        precondition(reply == nil || reply?.text == shown)
        return Replied(
            reasoning: reply?.reasoning ?? "", text: reply?.text ?? "",
            calls: (reply?.calls ?? []).map { [$0.name, $0.arguments] }, finish: finish?.rawValue ?? "", error: error)
    }

    private func message(_ row: [String]) -> ChatMessage {
        switch row[0] {
        case "reply": return replies[row[1]]!.message
        case "result": return ChatMessage(result: row[2], of: replies[row[1]]!.calls[0])
        default: return ChatMessage(ChatMessage.Role(rawValue: row[0])!, row[1])
        }
    }
}

@main struct Main {
    static func main() async throws {
        let cases = try JSONDecoder().decode(Cases.self, from: Data(contentsOf: URL(fileURLWithPath: "cases.json")))
        let scripts = cases.talks.scripts.map {
            Script(prompt: $0.prompt.utf8.map { Int($0) }, answer: $0.answer.utf8.map { Int($0) } + [2])
        }
        let scripted = ScriptedModel(scripts)
        Module.answers.names = Set(ModelFacts.methods.map(\.name))
        Module.answers.metadata = { name in
            let inputs = ModelFacts.methods.first { $0.name == name }!.inputs.enumerated()
            let known = inputs.map { ($0, TensorMetadata(shape: $1.shape, dataType: .half)) }
            return MethodMetadata(name: name, inputs: Dictionary(uniqueKeysWithValues: known))
        }
        Module.answers.execute = { try scripted.execute($0, $1) }
        AutoTokenizer.loaded = ByteTokenizer()
        let bundle = URL(fileURLWithPath: FileManager.default.currentDirectoryPath).appending(path: "bundle")
        var talks = Talks(model: try await EdgecModel.load(LoadOptions(bundle: bundle)))
        var replied: [String: Replied] = [:]
        for step in cases.talks.steps { replied[step.name] = await talks.answer(step) }
        let facts = Facts(
            messages: try cases.messages.map { try $0.read() }, budgets: try cases.budgets.map { try $0.held(cases.tokens, cases.allowed) },
            talks: replied)
        try JSONEncoder().encode(facts).write(to: URL(fileURLWithPath: "facts.json"))
    }
}
