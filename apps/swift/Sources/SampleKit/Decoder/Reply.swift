
/// A call of a tool that the model wrote; the arguments are a JSON object, for a decoder of the app.
public struct ToolCall: Sendable, Equatable {
    public let name: String
    public let arguments: String
}

/// A piece of a reply, in the order in which the model writes them.
public enum ReplyPiece: Sendable, Equatable {
    /// What was added to the reasoning.
    case reasoning(String)
    /// What was added to the answer.
    case text(String)
    /// Calls that became whole, and what the model wrote between the markers.
    case calls([ToolCall], text: String)
}

/// A whole reply.
public struct Reply: Sendable, Equatable {
    public let reasoning: String
    public let text: String
    public let calls: [ToolCall]
    /// To be put into the conversation, in front of the results of the calls.
    public let message: ChatMessage
}

extension EdgecModel {
    /// Answer a conversation, with reasoning, answer and calls told apart by the markers of the model's chat template;
    /// the whole reply is `lastReply` at the end.
    ///
    /// A `thinkingBudget` closes the reasoning after exactly so many tokens, unless the model closes it before; 0 switches
    /// it off where the template can, and else closes it at once. With `tools`, which is the default where there are any
    /// and no schema is given, the model sees the tools of this package (`edgec embed --tools`) and calls them as
    /// `toolChoice` says, one at most without `parallelCalls`; a call that it opens and does not write is
    /// `EdgecError.malformedCall`. With a schema of the bundle the answer after the reasoning is JSON that fulfils it, as
    /// in `generate`.
    public nonisolated func reply(
        to messages: [ChatMessage], options: GenerationOptions = GenerationOptions(), thinkingBudget: Int? = nil,
        tools: Bool? = nil, toolChoice: ToolChoice = .auto, parallelCalls: Bool = true, schema: ModelSchema? = nil
    ) -> AsyncThrowingStream<ReplyPiece, any Error> {
        AsyncThrowingStream { continuation in
            let tools = toolChoice != .none && (tools ?? (schema == nil && !ReplyFacts.tools.isEmpty))
            let asked = ReplyOptions(
                options: options, budget: thinkingBudget, tools: tools, choice: toolChoice, parallel: parallelCalls,
                schema: schema)
            let task = Task {
                do {
                    try await self.write(messages, asked) { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}

/// What is asked of a reply.
struct ReplyOptions: Sendable {
    let options: GenerationOptions
    let budget: Int?
    let tools: Bool
    let choice: ToolChoice
    let parallel: Bool
    let schema: ModelSchema?

    func check() throws {
        if tools && ReplyFacts.tools.isEmpty { throw EdgecError.optionOutOfRange("tools") }
        if tools && schema != nil { throw EdgecError.schemaRefused("the model may call tools; use the choice .none") }
        if schema != nil && !options.stop.isEmpty { throw EdgecError.schemaRefused("stop texts would cut it") }
        if !tools && choice != .auto && choice != .none {
            throw EdgecError.toolChoiceRefused("the model sees no tools")
        }
        guard let budget else { return }
        if budget < 0 { throw EdgecError.optionOutOfRange("thinkingBudget") }
        guard let notation = ReplyFacts.thinking else {
            if budget == 0 { return }
            throw EdgecError.thinkingRefused("its chat template has none of the markers that edgec knows")
        }
        if notation.closeTokens.isEmpty { throw EdgecError.thinkingRefused("no tokens write its markers") }
    }

    /// The prompt's tokens: in pieces where the template is made of them, else by swift-transformers.
    func prompt(_ messages: [ChatMessage], _ tokenization: Tokenization, _ session: Session) throws -> [Int] {
        let all = tokenization.opened(messages)
        let turns = all.enumerated().map { $1.inPrompt(all, $0) }
        let variant = budget.map { $0 > 0 ? 1 : 2 } ?? 0
        if let pieces = (tools ? ReplyFacts.withTools : ReplyFacts.plain)[variant] {
            return try session.prompt(turns, pieces, tokenization)
        }
        if tools || turns.contains(where: { $0.kind == "call" || $0.role == .tool || !$0.placeholders.isEmpty }) {
            throw EdgecError.messageRefused("\(Session.pieced) are not in the pieces of the prompt")
        }
        let switches = budget.map { value in ReplyFacts.switches.map { ($0, value > 0) } } ?? []
        return try tokenization.encode(turns, switches: Dictionary(uniqueKeysWithValues: switches))
    }

    /// The tokens in front of an answer that is held to a schema.
    func head(_ thought: Bool) throws -> [Int] {
        guard let heads = ReplyFacts.answerHeads else {
            throw EdgecError.schemaRefused("no tokens write the headers of an answer")
        }
        return thought ? heads.afterThought : heads.first
    }

    /// None where nothing is prescribed. With calls or a held answer, something has to come after the reasoning.
    func rule(_ phase: ThinkingPhase, _ tokenization: Tokenization, _ answer: ConstrainedAnswer?) throws -> ThinkingRule? {
        let notation = ReplyFacts.thinking
        if answer == nil && (notation == nil || (budget == nil && !tools)) { return nil }
        if answer != nil, let notation, notation.openTokens.isEmpty {
            throw EdgecError.thinkingRefused("no tokens write its markers")
        }
        let awaited = tools || answer != nil ? TextFacts.stopTokens : []
        return try ThinkingRule(notation, budget: budget, phase: phase, awaited: awaited, answer: answer) {
            tokenization.decodeMarked($0)
        }
    }
}

/// A reply that is being written after a prompt with a given end.
struct ReplyInProgress {
    let phase: ThinkingPhase
    var reader: ReplyReader
    private let opening: Scalars

    init(after end: String, _ asked: ReplyOptions) {
        let text = end.scalars.trimmedEnd, notation = ReplyFacts.thinking, open = notation?.open.scalars.trimmedEnd ?? []
        if let notation, !text.ends(with: notation.close.scalars) {
            phase = text.ends(with: open) ? .think : .start
        } else {
            phase = .answer
        }
        opening = phase == .think ? Scalars(end.scalars[(end.scalars.lastPlace(of: open) ?? 0)...]) : []
        let calls = asked.tools ? ReplyFacts.calls : nil
        reader = ReplyReader(
            stops: asked.options.stop, thinking: notation, calls: calls, frame: ReplyFacts.dropped,
            startsThinking: phase == .think
        ) { try calls?.read($0, of: ReplyFacts.tools) ?? [] }
    }

    var whole: Reply {
        let behind = String(Scalars(reader.raw[reader.thoughtEnd...]).trimmedStart)
        let message = reader.calls.isEmpty
            ? ChatMessage(.assistant, reader.shown)
            : ChatMessage(.assistant, behind, written: String(opening + reader.raw))
        return Reply(reasoning: reader.reasoning, text: reader.shown, calls: reader.calls, message: message)
    }
}

extension CallNotation {
    /// The calls between two markers, of tools that there are. Throws `NotACall`.
    func read(_ text: Scalars, of tools: [String: Set<String>]) throws -> [ToolCall] {
        try body.read(text).map { call in
            guard let texts = tools[call.name] else { throw NotACall(why: "there is no tool \(call.name)") }
            return ToolCall(name: call.name, arguments: JsonValue.fields(try body.typed(call, texts)).description)
        }
    }
}
