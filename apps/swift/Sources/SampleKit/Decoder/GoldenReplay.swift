import Foundation

/// The answers of tokenizer and model at export; see golden.json in the bundle.
struct GoldenVectors: Decodable {
    struct Chat: Decodable {
        let label: String?
        let messages: [[String: String]]
        let ids: [Int]
        /// The template writes the date; the ids are those of the day of the export.
        let dated: Bool?
    }

    struct Output: Decodable {
        let promptIds: [Int]
        let continuationIds: [Int]
        let margins: [Float]
        let tolerance: Float
    }

    let texts: [GoldenText]
    let chat: Chat?
    let chats: [Chat]?
    let outputs: [Output]

    init(_ bundle: URL) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(contentsOf: bundle.appending(path: "golden.json")))
    }
}

/// Replays the golden vectors on this device, at the first start of a bundle.
enum GoldenReplay {
    /// Every text must give the ids and be shown as at export, except those whose labels are accepted.
    static func checkTokens(_ golden: GoldenVectors, _ tokenization: Tokenization, accepted: Set<String>) throws {
        var differing = golden.texts
            .filter { tokenization.encode($0.text) != $0.ids || !$0.isShown { tokenization.decode($0) } }
            .map(\.label)
        // A template that swift-transformers cannot render differs too, and can be accepted like any text.
        let chats = ([golden.chat].compactMap { $0 } + (golden.chats ?? [])).filter { $0.dated != true }
        differing += chats.filter { (try? tokenization.encode(messages($0))) != $0.ids }.map { $0.label ?? "chat" }
        differing.removeAll { accepted.contains($0) }
        if !differing.isEmpty { throw EdgecError.tokenizerDiffers(labels: differing) }
    }

    /// The greedy continuation must be the same as at export, except where its lead was within the tolerance.
    static func checkOutputs(
        _ golden: GoldenVectors, _ session: Session, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        if golden.outputs.isEmpty {
            throw EdgecError.bundleAltered(file: "golden.json", why: "it has no continuation to replay")
        }
        for output in golden.outputs { try await check(output, session, isolation) }
        session.reset()
    }

    private static func check(
        _ output: GoldenVectors.Output, _ session: Session, _ isolation: isolated (any Actor)?
    ) async throws {
        var tokens = output.promptIds
        try await session.beginProbe(tokens, isolation: isolation)
        for (expected, margin) in zip(output.continuationIds, output.margins) {
            let logits = try await session.prefill(tokens, isolation: isolation)
            if logits.contains(where: { $0.isNaN }) {
                throw EdgecError.outputDiffers("after \(tokens.count) tokens a logit is not a number")
            }
            let likeliest = logits.indices.max { logits[$0] < logits[$1] }
            if likeliest != expected, margin > output.tolerance {
                throw EdgecError.outputDiffers(
                    "after \(tokens.count) tokens the likeliest is \(likeliest ?? -1) instead of \(expected), "
                        + "which led by \(margin)")
            }
            tokens.append(expected)
        }
    }

    private static func messages(_ chat: GoldenVectors.Chat) -> [ChatMessage] {
        chat.messages.compactMap { message in
            ChatMessage.Role(rawValue: message["role"] ?? "").map { ChatMessage($0, message["content"] ?? "") }
        }
    }
}
