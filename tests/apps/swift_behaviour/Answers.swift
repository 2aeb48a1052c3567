import Foundation

struct Request: Decodable {
    let name: String
    let tokens: [Int]?
    let text: String?
    let chat: [[String]]?
    let maxNewTokens: Int?
    let stop: [String]?
    let schema: String?
    let topP: Float?
    let repetitionPenalty: Float?
    /// Of this request's calls the one that fails, and how long each takes.
    let failAt: Int?
    let secondsPerCall: Double?
    /// The reader leaves, or cancels its task, after so many pieces.
    let leaveAfter: Int?
    let cancelAfter: Int?
    /// The adapter of the artifact to use from this request on; an empty name goes back to none.
    let adapter: String?
    /// Texts that are scored after the text.
    let continuations: [String]?

    var options: GenerationOptions {
        GenerationOptions(
            maxNewTokens: maxNewTokens, topP: topP ?? 1, repetitionPenalty: repetitionPenalty ?? 1, stop: stop ?? [])
    }
}

/// The answer to a request; the keys of a reason to stop and of an error exist only where there is one.
struct Answered: Encodable {
    let pieces: [String]
    let error, finish: String?
    let calls: [String]
}

/// Requests to one loaded model, one after another or all at once.
struct Answers {
    let model: EdgecModel
    let scripted: ScriptedModel

    func answer(_ request: Request) async -> Answered {
        scripted.calls = []
        scripted.failAt = request.failAt
        scripted.secondsPerCall = request.secondsPerCall ?? 0
        let (pieces, error) = await Task { await Self.read(model, request) }.value
        // The gate opens when the answer has ended, also one that nobody reads any more.
        if request.leaveAfter != nil || request.cancelAfter != nil { await model.reset() }
        let finish = await model.lastFinish?.rawValue
        return Answered(pieces: pieces, error: error, finish: finish, calls: scripted.calls)
    }

    func together(_ requests: [Request]) async -> [[String]] {
        scripted.failAt = nil
        return await withTaskGroup(of: (Int, [String]).self) { group in
            for (index, request) in requests.enumerated() {
                group.addTask { (index, await Self.read(model, request).0) }
            }
            return await group.reduce(into: Array(repeating: [], count: requests.count)) { $0[$1.0] = $1.1 }
        }
    }

    private static func read(_ model: EdgecModel, _ request: Request) async -> ([String], String?) {
        var pieces: [String] = []
        /// True when the reader has had enough.
        func take(_ piece: String) -> Bool {
            pieces.append(piece)
            if pieces.count == request.cancelAfter { withUnsafeCurrentTask { $0?.cancel() } }
            return pieces.count == request.leaveAfter
        }
        do {
            if let adapter = request.adapter { try await model.useAdapter(named: adapter.isEmpty ? nil : adapter) }
            if let continuations = request.continuations {
                for score in try await model.score(prompt: request.text!, continuations: continuations) {
                    let logprob = String(format: "%.5f", score.logprob)
                    _ = take("\(score.text) \(logprob) \(score.tokens) \(score.greedy)")
                }
            } else if let tokens = request.tokens {
                let stream = model.generate(tokens: tokens, options: request.options)
                for try await token in stream where take("\(token)") { break }
            } else if let chat = request.chat {
                let messages = chat.map { ChatMessage(ChatMessage.Role(rawValue: $0[0])!, $0[1]) }
                let stream = model.generate(messages: messages, options: request.options)
                for try await piece in stream where take(piece) { break }
            } else {
                let stream = model.generate(
                    prompt: request.text!, options: request.options, schema: request.schema.map { ModelSchema($0) })
                for try await piece in stream where take(piece) { break }
            }
            return (pieces, nil)
        } catch {
            return (pieces, String(describing: error))
        }
    }
}
