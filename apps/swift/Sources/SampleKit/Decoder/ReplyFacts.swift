import Foundation

/// How reasoning is told from the answer; without `closeTokens` no tokens write its markers.
struct ThinkingNotation: Decodable {
    let open, close: String
    let openTokens, closeTokens: [Int]
}

/// The tokens in front of an answer that is held to a schema, where a message has headers.
struct AnswerHeads: Decodable {
    let first, afterThought: [Int]
}

/// How calls are told from text: each between `open` and `close`; with an empty `close`, only the next call ends one.
struct CallNotation {
    let open, close: String
    /// A call is all of the message.
    let alone: Bool
    /// Several calls may follow each other, each in its own markers.
    let many: Bool
    /// A special token that may come before `open`.
    let before: String
    let body: any CallBody
}

/// What a chat template writes between the contents of messages, by the kinds of the two that it stands between.
struct PromptPieces: Decodable {
    private static let toolName = "\u{E012}"
    let joins: [String: String]
    let trimmed: Set<String>
    let quoted: Bool

    /// Renders a conversation up to where the assistant answers.
    func render(_ messages: [ChatMessage]) throws -> String {
        var text = "", last = "start"
        for message in messages {
            for placeholder in message.placeholders {
                text += try join(last, "image", "") + placeholder
                last = "image"
            }
            text += try join(last, message.kind, message.tool)
            let trims = trimmed.contains(message.kind)
            let content = trims ? String(message.content.scalars.trimmed) : message.content
            let isQuoted = message.kind == "tool" && quoted
            text += isQuoted ? String(JsonValue.quoted(content).unicodeScalars.dropFirst().dropLast()) : content
            last = message.kind
        }
        return text + (try join(last, "answer", ""))
    }

    private func join(_ from: String, _ to: String, _ tool: String) throws -> String {
        guard let text = joins["\(from) \(to)"] else { throw EdgecError.messageRefused("\(to) after \(from)") }
        return PromptDates.fill(text).replacingOccurrences(of: Self.toolName, with: tool)
    }
}

extension ChatMessage {
    /// What a message is to the template: one with calls of tools stands in the prompt as the model wrote it.
    var kind: String { written == nil ? role.rawValue : "call" }

    /// The message as it stands in the prompt at its place, with its reasoning where the template keeps it.
    func inPrompt(_ messages: [ChatMessage], _ place: Int) -> ChatMessage {
        let isOld = messages[(place + 1)...].contains { $0.role == .user }
        guard let written, isOld ? ReplyFacts.keepsOldThought : ReplyFacts.keepsThought else { return self }
        return ChatMessage(role, written, written: written)
    }
}

/// The notations of the model's chat template, as edgec found them in it when it wrote this package.
enum ReplyFacts {
    private static let facts: ReplyPart = FactsFile.part("replies")
    static let thinking: ThinkingNotation? = facts.thinking
    /// So many tokens of a prompt's end show whether it has opened or closed the reasoning.
    static let tailTokens: Int = facts.tailTokens
    static let calls: CallNotation? = facts.calls
    /// nil: no tokens write them.
    static let answerHeads: AnswerHeads? = facts.answerHeads
    /// Markers around the parts of a message that belong to none of them.
    static let dropped: [String] = facts.dropped
    /// Special tokens that are not markers, which the text of a message leaves out.
    static let hidden: [ClosedRange<Int>] = facts.hidden
    /// The tools of this package: each name, with the arguments that are texts by their schema.
    static let tools: [String: Set<String>] = facts.tools
    /// What calls are held to: the grammar's file for each choice of tools; empty: they are held to nothing.
    static let constrainedChoices: [String: String] = facts.constrainedChoices
    /// The sha256 of these files and of the tokens' file.
    static let storedFiles: [String: String] = facts.storedFiles
    /// The template's variables that switch reasoning on and off.
    static let switches: [String] = facts.switches
    /// Whether the template shows the reasoning before a call, while the results of the message come and after it.
    static let keepsThought: Bool = facts.keepsThought
    static let keepsOldThought: Bool = facts.keepsOldThought

    /// The prompt without tools and with them: as the template has it, with reasoning switched on, and off.
    static let plain: [PromptPieces?] = facts.plain
    static let withTools: [PromptPieces?] = facts.withTools
}

struct ReplyPart: Decodable {
    let thinking: ThinkingNotation?
    let calls: CallNotation?
    let answerHeads: AnswerHeads?
    let tailTokens: Int
    let dropped, switches: [String]
    let hidden: [ClosedRange<Int>]
    let tools: [String: Set<String>]
    let constrainedChoices, storedFiles: [String: String]
    let keepsThought, keepsOldThought: Bool
    let plain, withTools: [PromptPieces?]
}

extension CallNotation: Decodable {
    private enum Field: String, CodingKey { case open, close, alone, many, before, body }

    init(from decoder: any Swift.Decoder) throws {
        let fields = try decoder.container(keyedBy: Field.self)
        open = try fields.decode(String.self, forKey: .open)
        close = try fields.decode(String.self, forKey: .close)
        alone = try fields.decode(Bool.self, forKey: .alone)
        many = try fields.decode(Bool.self, forKey: .many)
        before = try fields.decode(String.self, forKey: .before)
        body = try fields.decode(BodyPart.self, forKey: .body).body()
    }
}

/// A kind of body, and what it is made with.
private struct BodyPart: Decodable {
    let kind: String
    let opened, between, skipped, quote: String?

    func body() throws -> any CallBody {
        switch (kind, opened, between, skipped, quote) {
        case ("json", let opened?, _, _, _): return JsonCall(opened: opened)
        case ("list", _, _, _, _): return JsonList()
        case ("named", _, let between?, let skipped?, _): return NamedJson(between: between, skipped: skipped)
        case ("python", _, _, _, _): return PythonCalls()
        case ("gemma", _, _, _, let quote?): return GemmaCall(quote: quote)
        case ("tagged", _, _, _, _): return TaggedCall()
        default: throw NotACall(why: "there is no notation \(kind)")
        }
    }
}
