// Foundation Models takes models of others from iOS 27 on, whose SDK comes with Swift 6.4; earlier ones skip this file.
#if compiler(>=6.4) && canImport(FoundationModels)
import Foundation
import FoundationModels

/// This model for Foundation Models' `LanguageModelSession`, in the place of the system's own.
///
///     let model = FoundationModel(try await EdgecModel.load())
///     let session = LanguageModelSession(model: model, instructions: "Be brief.")
///     for try await snapshot in session.streamResponse(to: "Who is Lily?") { print(snapshot.content) }
///
/// It answers text with text, and tells reasoning from the answer where the chat template has marks for it. A session's
/// tools are those of the package (`edgec embed --tools`), by their names. Images and sounds are refused by the framework,
/// since `capabilities` lacks them.
@available(iOS 27.0, macOS 27.0, visionOS 27.0, *)
public struct FoundationModel: LanguageModel {
    public typealias Executor = FoundationExecutor

    let model: EdgecModel
    let options: GenerationOptions
    let schema: ModelSchema?
    /// What the model wrote of its calls.
    let written = WrittenCalls()

    /// - Parameters:
    ///   - model: loaded; it may answer other calls beside the session's, one after another.
    ///   - options: what holds where a request says nothing.
    ///   - schema: a schema of the bundle, to which answers are held where a request wants a `Generable` value. That the
    ///     two describe the same is for the app to see to; the framework's own schema cannot be compiled on the device.
    public init(
        _ model: EdgecModel, options: GenerationOptions = GenerationOptions(), schema: ModelSchema? = nil
    ) {
        self.model = model
        self.options = options
        self.schema = schema
    }

    public var capabilities: LanguageModelCapabilities {
        let guided: [LanguageModelCapabilities.Capability] = schema == nil ? [] : [.guidedGeneration]
        let calling: [LanguageModelCapabilities.Capability] = ReplyFacts.tools.isEmpty ? [] : [.toolCalling]
        return LanguageModelCapabilities(guided + calling + (ReplyFacts.thinking == nil ? [] : [.reasoning]))
    }

    public var executorConfiguration: FoundationExecutor.Configuration {
        FoundationExecutor.Configuration(model: ObjectIdentifier(model))
    }
}

/// The messages with calls as the model wrote them, by the ids of their calls: so they stand in the next prompts.
actor WrittenCalls {
    private static let most = 256
    private var messages: [String: ChatMessage] = [:]
    private var order: [String] = []

    func keep(_ message: ChatMessage, _ ids: [String]) {
        for id in ids { messages[id] = message }
        order += ids
        for old in order.prefix(max(order.count - Self.most, 0)) { messages[old] = nil }
        order = order.suffix(Self.most)
    }

    func message(of call: String) -> ChatMessage? { messages[call] }
}

/// Translates a session's requests; the model that a request brings holds all state.
@available(iOS 27.0, macOS 27.0, visionOS 27.0, *)
public struct FoundationExecutor: LanguageModelExecutor {
    public typealias Model = FoundationModel

    /// Which loaded model it is.
    public struct Configuration: Hashable, Sendable {
        let model: ObjectIdentifier
    }

    public init(configuration: Configuration) {}

    /// Answer a transcript; reasoning and answer arrive piece by piece, each in one entry, and the usage at the end.
    public func respond(
        to request: LanguageModelExecutorGenerationRequest, model: FoundationModel,
        streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws {
        let tools = try Self.tools(request)
        let messages = try await Self.messages(request.transcript, model.written)
        let options = Self.options(request.generationOptions, over: model.options)
        let entry = UUID().uuidString
        var thoughts = ""
        do {
            if tools == .none, request.schema != nil, let schema = model.schema {
                for try await piece in model.model.generate(messages: messages, options: options, schema: schema) {
                    await Self.say(piece, entry, channel)
                }
            } else {
                thoughts = try await Self.reply(model, messages, options, tools, entry, channel)
            }
        } catch let error as EdgecError {
            throw Self.translated(error)
        }
        guard let timings = await model.model.lastTimings else { return }
        // As the tokenizer counts the text, without the marks around it.
        let thought = thoughts.isEmpty ? 0 : await model.model.tokenCount(thoughts) - model.model.tokenCount("")
        await channel.send(
            .response(
                entryID: entry,
                action: .updateUsage(
                    input: .init(totalTokenCount: timings.promptTokens, cachedTokenCount: timings.cachedTokens),
                    output: .init(totalTokenCount: timings.newTokens, reasoningTokenCount: thought))))
    }

    /// Send a reply as it is written; returns the reasoning.
    private static func reply(
        _ model: FoundationModel, _ messages: [ChatMessage], _ options: GenerationOptions, _ tools: ToolChoice,
        _ entry: String, _ channel: LanguageModelExecutorGenerationChannel
    ) async throws -> String {
        let thoughtEntry = UUID().uuidString, callEntry = UUID().uuidString
        var thoughts = "", ids: [String] = []
        for try await piece in model.model.reply(to: messages, options: options, toolChoice: tools) {
            switch piece {
            case .reasoning(let text):
                thoughts += text
                await channel.send(.reasoning(entryID: thoughtEntry, action: .appendText(text, tokenCount: 1)))
            case .text(let text): await say(text, entry, channel)
            case .calls(let calls, _):
                for call in calls {
                    ids.append(UUID().uuidString)
                    await send(call, ids[ids.count - 1], callEntry, channel)
                }
            }
        }
        if let message = await model.model.lastReply?.message { await model.written.keep(message, ids) }
        return thoughts
    }

    /// Send a whole call; the session calls the tool, and asks again with what it gave.
    private static func send(
        _ call: ToolCall, _ id: String, _ entry: String, _ channel: LanguageModelExecutorGenerationChannel
    ) async {
        let arguments = LanguageModelExecutorGenerationChannel.ToolCalls.Action.toolCall(
            id: id, name: call.name, action: .appendArguments(call.arguments, tokenCount: 1))
        await channel.send(.toolCalls(entryID: entry, action: arguments))
    }

    /// What a request's tools and its mode say; they must be the package's tools, which are part of its prompt.
    private static func tools(_ request: LanguageModelExecutorGenerationRequest) throws -> ToolChoice {
        let names = Set(request.enabledToolDefinitions.map(\.name)), own = Set(ReplyFacts.tools.keys)
        var choice = ToolChoice.auto
        switch request.generationOptions.toolCallingMode?.kind {
        case .required: choice = .required
        case .disallowed: choice = .none
        default: break
        }
        if names.isEmpty || choice == .none { return .none }
        let odd = names.subtracting(own).sorted() + own.subtracting(names).sorted()
        if !odd.isEmpty {
            let fixed = "the tools of this package are \(own.sorted()), fixed when it was written (edgec embed --tools)"
            throw unsupported(.toolCalling, "\(fixed); the session's differ by \(odd)")
        }
        if request.schema != nil { throw unsupported(.guidedGeneration, "this model takes tools or a schema, not both") }
        return choice
    }

    private static func unsupported(
        _ capability: LanguageModelCapabilities.Capability, _ why: String
    ) -> LanguageModelError {
        .unsupportedCapability(.init(capability: capability, debugDescription: why))
    }

    /// Send a piece of the answer, which is one token or more: the usage has the counts.
    private static func say(
        _ text: String, _ entry: String, _ channel: LanguageModelExecutorGenerationChannel
    ) async {
        await channel.send(.response(entryID: entry, action: .appendText(text, tokenCount: 1)))
    }

    /// A transcript as messages of the chat template; a message with calls is what the model wrote, text before them included.
    private static func messages(_ transcript: Transcript, _ written: WrittenCalls) async throws -> [ChatMessage] {
        var messages: [ChatMessage] = []
        for entry in transcript {
            guard case .toolCalls(let calls) = entry else {
                if let message = try message(entry) { messages.append(message) }
                continue
            }
            guard let first = calls.first, let message = await written.message(of: first.id) else {
                throw unsupported(entry, "these calls were not written by this model since the app began")
            }
            if messages.last?.role == .assistant { messages.removeLast() }
            messages.append(message)
        }
        return messages
    }

    /// An entry of a transcript as a message of the chat template; nil for what a model does not read again.
    private static func message(_ entry: Transcript.Entry) throws -> ChatMessage? {
        switch entry {
        case .instructions(let instructions): return ChatMessage(.system, try text(instructions.segments, entry))
        case .prompt(let prompt): return ChatMessage(.user, try text(prompt.segments, entry))
        case .response(let response): return ChatMessage(.assistant, try text(response.segments, entry))
        case .toolOutput(let output):
            let call = ToolCall(name: output.toolName, arguments: "{}")
            return ChatMessage(result: try text(output.segments, entry), of: call)
        case .reasoning: return nil
        default: throw unsupported(entry, "the model knows no such entry")
        }
    }

    private static func text(_ segments: [Transcript.Segment], _ entry: Transcript.Entry) throws -> String {
        try segments.map { segment in
            switch segment {
            case .text(let text): return text.content
            case .structure(let structure): return structure.content.jsonString
            default: throw unsupported(entry, "the model reads text alone")
            }
        }.joined(separator: "\n")
    }

    private static func unsupported(_ entry: Transcript.Entry, _ why: String) -> LanguageModelError {
        .unsupportedTranscriptContent(.init(unsupportedContent: [entry], debugDescription: why))
    }

    /// What a request says, over the model's own options.
    private static func options(
        _ asked: FoundationModels.GenerationOptions, over own: GenerationOptions
    ) -> GenerationOptions {
        var options = own
        if let most = asked.maximumResponseTokens { options.maxNewTokens = most }
        if let temperature = asked.temperature { options.temperature = Float(temperature) }
        guard let mode = asked.samplingMode else { return options }
        // Drawing at random needs a temperature; 1 leaves the model's probabilities as they are.
        let drawn = options.temperature > 0 ? options.temperature : 1
        switch mode.kind {
        case .greedy: options.temperature = 0
        case .randomTopK(let k, let seed): (options.temperature, options.topK, options.seed) = (drawn, k, seed)
        case .randomProbabilityThreshold(let p, let seed):
            (options.temperature, options.topP, options.seed) = (drawn, Float(p), seed)
        default: break
        }
        return options
    }

    /// The framework's own error where it has one for the same; apps that switch models catch it alike.
    private static func translated(_ error: EdgecError) -> any Error {
        guard case .promptTooLong(let tokens, let context) = error else { return error }
        return LanguageModelError.contextSizeExceeded(
            .init(contextSize: context, tokenCount: tokens, debugDescription: error.localizedDescription))
    }
}
#endif
