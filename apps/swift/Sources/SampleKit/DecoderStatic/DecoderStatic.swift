
/// Something that feeds tokens to the model.
protocol Decoder: AnyObject {
    /// Feed 1...`ModelLimits.prefillChunk` tokens from position `start` on; the logits after the last one.
    func logits(_ tokens: [Int], start: Int, isolation: isolated (any Actor)?) async throws -> [Float]

    /// Call the artifact's functions under an adapter from now on; nil: those of the model as it is.
    func useFunctions(under adapter: String?) throws
}

/// What makes the inputs of a decoder that takes images, which go with its tokens.
protocol RowSource: AnyObject {
    /// The values of an input that goes with tokens from `start` on, of which there are `count`; nil: it is another.
    func values(_ facts: TensorFacts, start: Int, count: Int) -> InputTensor.Values?
}

/// A decoder over two static methods: `prefill` takes a padded chunk, `decode` one token.
///
/// The padding writes into the cache after the last token, and is overwritten before it is read.
final class ModelDecoder: Decoder {
    private let runtime: any Runtime
    private var prefill: MethodFacts
    private var decode: MethodFacts
    private let chunk: Int
    private let buffers: [String: StateBuffer]
    private let rows: (any RowSource)?

    init(_ runtime: any Runtime, _ rows: (any RowSource)? = nil) throws {
        self.runtime = runtime
        self.rows = rows
        prefill = try MethodFacts.named("prefill")
        decode = try MethodFacts.named("decode")
        chunk = prefill.inputs.first { $0.name == "tokens" }?.shape.last ?? 1
        buffers = try Self.held(decode)
    }

    func useFunctions(under adapter: String?) throws {
        let own = try (MethodFacts.named("prefill"), MethodFacts.named("decode"))
        (prefill, decode) = adapter.map { (own.0.under($0), own.1.under($0)) } ?? own
    }

    func logits(_ tokens: [Int], start: Int, isolation: isolated (any Actor)?) async throws -> [Float] {
        // A chunk whose padding would reach past the end of the cache is fed token by token.
        if CacheFacts.methodsShareState, tokens.count > 1, tokens.count <= chunk, start + chunk <= CacheFacts.slots {
            let padded = tokens + Array(repeating: 0, count: chunk - tokens.count)
            return try await run(prefill, padded, start, last: tokens.count - 1, isolation)
        }
        var logits: [Float] = []
        for (offset, token) in tokens.enumerated() {
            logits = try await run(decode, [token], start + offset, last: 0, isolation)
        }
        return logits
    }

    /// Runs a method: outputs `new_...` are rows of a state, `next_...` all of one, the others logits, in order.
    private func run(
        _ method: MethodFacts, _ tokens: [Int], _ start: Int, last: Int, _ isolation: isolated (any Actor)?
    ) async throws -> [Float] {
        let given: [String: [Int]] = ["tokens": tokens, "start": [start], "last": [last]]
        let inputs = try method.inputs.map { facts in
            if let numbers = given[facts.name] { return try InputTensor(facts, .integers(numbers)) }
            if let buffer = buffers[facts.name] { return try InputTensor(facts, .held(buffer)) }
            if let values = rows?.values(facts, start: start, count: last + 1) { return try InputTensor(facts, values) }
            throw EdgecError.runtimeDiffers("\(method.name) needs an input \(facts.name)")
        }
        var logits: [Float] = []
        let outputs = try await runtime.run(method, inputs, isolation: isolation)
        for (facts, numbers) in zip(method.outputs, outputs) {
            if facts.name.hasPrefix("new_"), let buffer = buffers[String(facts.name.dropFirst(4))] {
                buffer.write(numbers, all: tokens.count, tokens: last + 1, start: start)
            } else if facts.name.hasPrefix("next_"), let buffer = buffers[String(facts.name.dropFirst(5))] {
                buffer.replace(numbers)
            } else {
                logits += numbers
            }
        }
        return logits
    }

    private static let given: Set<String> = [
        "tokens", "start", "last", "input_embeds", "embeds_mask", "span_end", "mrope_positions",
    ]

    /// A buffer for every input that is a state, shared by both methods.
    private static func held(_ method: MethodFacts) throws -> [String: StateBuffer] {
        var buffers: [String: StateBuffer] = [:]
        for facts in method.inputs where !given.contains(facts.name) {
            buffers[facts.name] = try StateBuffer(facts)
        }
        return buffers
    }
}
