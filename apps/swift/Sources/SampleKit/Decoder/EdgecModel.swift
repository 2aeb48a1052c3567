import Foundation

/// How a model is loaded.
public struct LoadOptions: Sendable {
    /// The bundle's folder, where it is neither a resource nor an asset pack of this package. With a pinned key
    /// (`edgec embed --public-key`) it may be another bundle that the key's holder signed and that fits this package.
    public var bundle: URL?
    /// Hash every file at every load, not only at the first.
    public var hashAlways: Bool
    /// Labels of golden texts whose token ids may differ from those at export.
    public var acceptedTexts: Set<String>
    /// Called with what `load` does, on no particular thread.
    public var progress: (@Sendable (LoadStep) -> Void)?

    public init(
        bundle: URL? = nil, hashAlways: Bool = false, acceptedTexts: Set<String> = [],
        progress: (@Sendable (LoadStep) -> Void)? = nil
    ) {
        self.bundle = bundle
        self.hashAlways = hashAlways
        self.acceptedTexts = acceptedTexts
        self.progress = progress
    }
}

/// Why an answer ended; `complete`: it is held to a schema and whole.
public enum FinishReason: String, Sendable { case endOfText, stopText, length, context, complete }

/// A loaded language model. Calls are answered one after another; the cache is kept between them.
public actor EdgecModel: OneCallAtATime {
    let session: Session
    private let runtime: any Runtime
    let tokenization: Tokenization
    private let constrainedCalls = ConstrainedCalls()
    let gate = CallGate()
    /// Why the last answer ended; nil while one is made, and after one that failed or was cancelled.
    public private(set) var lastFinish: FinishReason?
    /// How long the last answer took; nil while one is made, and after one that failed or was cancelled.
    public private(set) var lastTimings: AnswerTimings?
    /// The last whole `reply`; nil while one is made, and after one that failed or was cancelled.
    public private(set) var lastReply: Reply?
    /// The adapter's file that is added, or nil; `useAdapter` changes it.
    public private(set) var adapter: URL?
    /// The name of the artifact's adapter that is used, or nil; `useAdapter(named:)` changes it.
    public private(set) var adapterName: String?

    /// Find the bundle, check it, check the memory, load it; at the first start also replay its golden vectors.
    public static func load(_ options: LoadOptions = LoadOptions()) async throws -> EdgecModel {
        let tell = options.progress ?? { _ in }
        tell(.finding)
        let folder = try await BundleLocation.find(options.bundle)
        let bundle = try BundleCheck.run(folder, isGiven: options.bundle != nil, always: options.hashAlways, tell)
        try MemoryCheck.run(bundle.neededBytes)
        tell(.loading)
        let tokenization = try await Tokenization(folder)
        let runtime = try await ModelRuntime(bundle)
        let session = try Session(runtime, bundle)
        if !bundle.isDone("golden") {
            tell(.comparing)
            let golden = try GoldenVectors(folder)
            try GoldenReplay.checkTokens(golden, tokenization, accepted: options.acceptedTexts)
            try await GoldenReplay.checkOutputs(golden, session)
            try bundle.finish("golden")
        }
        return EdgecModel(session, runtime, tokenization)
    }

    private init(_ session: Session, _ runtime: any Runtime, _ tokenization: Tokenization) {
        self.session = session
        self.runtime = runtime
        self.tokenization = tokenization
    }

    /// Continue a text; each element of the stream is a piece of new text.
    ///
    /// With a schema of the bundle the answer is JSON that fulfils it, and ends where it is whole; only one whose tokens
    /// run out first (`lastFinish` is `length` or `context`) is unfinished.
    public nonisolated func generate(
        prompt: String, options: GenerationOptions = GenerationOptions(), schema: ModelSchema? = nil
    ) -> AsyncThrowingStream<String, any Error> {
        stream(options, schema) { $0.tokenization.encode(afterSystemPrompt: prompt) }
    }

    /// Answer a conversation, as the same function for a text; it begins with the bundle's system prompt unless it
    /// brings its own.
    public nonisolated func generate(
        messages: [ChatMessage], options: GenerationOptions = GenerationOptions(), schema: ModelSchema? = nil
    ) -> AsyncThrowingStream<String, any Error> {
        stream(options, schema) { try $0.prompt(messages) }
    }

    /// Continue token ids; each element of the stream is a new id, and only the limits or the end of a schema's text
    /// end it.
    public nonisolated func generate(
        tokens: [Int], options: GenerationOptions = GenerationOptions(), schema: ModelSchema? = nil
    ) -> AsyncThrowingStream<Int, any Error> {
        AsyncThrowingStream { continuation in
            let task = Task {
                do {
                    try await self.produce(tokens, options, schema) { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// Token ids of a text, with the tokenizer's own leading tokens.
    public func tokenCount(_ text: String) -> Int { tokenization.encode(text).count }

    /// Forget the conversation that the cache holds.
    public func reset() async { await exclusively { session.reset() } }

    /// Add the adapter in a file that `edgec adapter` made for this bundle, from the next answer on; nil: none.
    ///
    /// The cache is emptied, since it was computed without it. One that is refused changes nothing.
    public func useAdapter(_ file: URL?) async throws {
        try await exclusively {
            try runtime.useAdapter(file)
            adapter = file
            session.reset()
        }
    }

    /// Compute under one of the artifact's own adapters (`ModelFacts.adapters`) from the next answer on; nil: none.
    ///
    /// Its functions are loaded in place of those of the one before. The cache is emptied. One that is refused changes
    /// nothing.
    public func useAdapter(named name: String?) async throws {
        try await exclusively {
            if let name {
                guard ModelFacts.adapters.contains(name) else {
                    throw EdgecError.adapterRefused("the artifact has no adapter \(name)")
                }
                try await runtime.load(ModelFacts.methods.map { $0.under(name) }, isolation: self)
            }
            try session.useFunctions(under: name)
            adapterName = name
        }
    }

    nonisolated func stream(
        _ options: GenerationOptions, _ schema: ModelSchema?,
        _ encode: @escaping @Sendable (isolated EdgecModel) throws -> [Int]
    ) -> AsyncThrowingStream<String, any Error> {
        AsyncThrowingStream { continuation in
            let task = Task {
                do {
                    _ = try await self.answer(options, schema, encode) { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// The whole text of an answer that is held to a schema.
    func whole(
        _ options: GenerationOptions, _ schema: ModelSchema, _ encode: @Sendable (isolated EdgecModel) throws -> [Int]
    ) async throws -> String {
        let (text, finish) = try await answer(options, schema, encode) { _ in }
        if finish == .length || finish == .context {
            throw EdgecError.answerUnfinished(text: text, why: finish.rawValue)
        }
        return text
    }

    /// Write an answer in pieces that `show` gets; returns all of it, and why it ended.
    private func answer(
        _ options: GenerationOptions, _ schema: ModelSchema?, _ encode: @Sendable (isolated EdgecModel) throws -> [Int],
        _ show: @Sendable (String) -> Void
    ) async throws -> (text: String, finish: FinishReason) {
        try await exclusively {
            forget()
            let tokenization = self.tokenization
            let prompt = try encode(self)
            var text = TextStream(after: prompt) { tokenization.decode($0) }
            var stops = StopText(options.stop)
            var shown = ""
            let held = try schema.map { try constrained($0, options, room(prompt, options)) }
            let finish = try await forEachToken(prompt, options, held) { token in
                if TextFacts.stopTokens.contains(token) { return .endOfText }
                let piece = stops.feed(text.push(token))
                if !piece.isEmpty { show(piece) }
                shown += piece
                return stops.hit == nil ? nil : .stopText
            }
            let rest = stops.hit == nil ? stops.feed(text.flush()) + stops.flush() : ""
            if !rest.isEmpty { show(rest) }
            return (shown + rest, finish)
        }
    }

    private func produce(
        _ prompt: [Int], _ options: GenerationOptions, _ schema: ModelSchema?, _ show: @Sendable (Int) -> Void
    ) async throws {
        try await exclusively {
            forget()
            let held = try schema.map { try constrained($0, options, room(prompt, options)) }
            _ = try await forEachToken(prompt, options, held) { token in
                show(token)
                return schema != nil && TextFacts.stopTokens.contains(token) ? .endOfText : nil
            }
        }
    }

    /// Write a reply in pieces that `show` gets.
    func write(_ messages: [ChatMessage], _ asked: ReplyOptions, _ show: @Sendable (ReplyPiece) -> Void) async throws {
        try await exclusively {
            forget()
            do {
                try asked.check()
                lastReply = try await written(try asked.prompt(messages, tokenization, session), asked, show)
            } catch {
                forget()
                throw error
            }
        }
    }

    private func written(
        _ prompt: [Int], _ asked: ReplyOptions, _ show: @Sendable (ReplyPiece) -> Void
    ) async throws -> Reply {
        let tokenization = self.tokenization
        let end = tokenization.decodeMarked(Array(prompt.suffix(ReplyFacts.tailTokens)))
        var message = ReplyInProgress(after: end, asked)
        var text = TextStream(after: prompt) { tokenization.decodeMarked($0) }
        let rule = try asked.rule(message.phase, tokenization, constrainedAnswer(prompt, asked))
        _ = try await forEachToken(prompt, asked.options, rule) { token in
            if TextFacts.stopTokens.contains(token) { return .endOfText }
            try message.reader.feed(text.push(token)).forEach(show)
            return message.reader.stopped ? .stopText : nil
        }
        try message.reader.close(text.flush()).forEach(show)
        return message.whole
    }

    private func constrainedAnswer(_ prompt: [Int], _ asked: ReplyOptions) throws -> ConstrainedAnswer? {
        let most = room(prompt, asked.options)
        if let schema = asked.schema {
            return ConstrainedAnswer(tokens: most, isText: true) { left, thought in
                let head = try asked.head(thought)
                let text = try self.constrained(schema, asked.options, max(left - head.count, 1))
                return head.isEmpty ? text : HeadedText(head, text)
            }
        }
        guard asked.tools, let structure = try constrainedCalls.structure(asked.choice, parallel: asked.parallel) else { return nil }
        return ConstrainedAnswer(tokens: most, isText: false) { _, _ in try self.runtime.holdTo(calls: structure) }
    }

    private func forget() { (lastFinish, lastTimings, lastReply) = (nil, nil, nil) }

    /// Draw tokens until `take` gives a reason to stop, a limit is reached, or a text that is held ends.
    private func forEachToken(
        _ prompt: [Int], _ options: GenerationOptions, _ text: (any ConstrainedText)?, _ take: (Int) throws -> FinishReason?
    ) async throws -> FinishReason {
        try options.check()
        var stopwatch = Stopwatch()
        var sampler = Sampler(options, after: prompt)
        var tokens = prompt
        try await session.begin(prompt, isolation: self)
        let held = session.reusable(prompt)
        var logits = try await session.prefill(tokens, isolation: self)
        while true {
            try Task.checkCancellation()
            try text?.mask(&logits)
            let token = sampler.next(logits)
            let progress = try text?.take(token)
            stopwatch.tokenCame()
            tokens.append(token)
            if let reason = try take(token) ?? end(progress, tokens.count - prompt.count, tokens.count, options) {
                lastFinish = reason
                lastTimings = stopwatch.timings(promptTokens: prompt.count, cachedTokens: held)
                return reason
            }
            logits = try await session.prefill(tokens, isolation: self)
        }
    }

    /// The most tokens of an answer; a prompt that is too long is refused with the first call of the model.
    private func room(_ prompt: [Int], _ options: GenerationOptions) -> Int {
        let room = ModelLimits.context + 1 - prompt.count
        return max(1, min(options.maxNewTokens ?? room, room))
    }

    private func constrained(_ schema: ModelSchema, _ options: GenerationOptions, _ tokens: Int) throws -> any ConstrainedText {
        if !options.stop.isEmpty { throw EdgecError.schemaRefused("stop texts would cut it") }
        return try runtime.holdTo(schema: schema.name, budget: tokens)
    }

    private func end(_ progress: TextProgress?, _ new: Int, _ all: Int, _ options: GenerationOptions) -> FinishReason? {
        if progress == .ended { return .complete }
        var limit: FinishReason?
        if let most = options.maxNewTokens, new >= most {
            limit = .length
        } else if all > ModelLimits.context {
            limit = .context
        }
        return limit != nil && progress == .whole ? .complete : limit
    }
}
