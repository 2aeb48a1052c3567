import SampleKitEngine

/// Feeds tokens and rows of images to the artifact's decoder in edgec's engine, which keeps the cache.
final class VisionDecoder {
    let vision: Vision
    private let engine: EngineSession
    /// Keeps the session open.
    private let runtime: ModelRuntime

    init(_ runtime: ModelRuntime, _ bundle: CheckedBundle) throws {
        self.runtime = runtime
        // The decoder comes last where there is more than one method.
        guard let method = ModelFacts.methods.last else { throw EdgecError.runtimeDiffers("there is no method") }
        engine = try runtime.session(method)
        vision = try Vision(bundle)
    }

    /// Put images into the places of a prompt; returns how many of its first tokens the cache may still hold.
    func begin(_ prompt: [Int], _ images: [Pixels], isolation: isolated (any Actor)?) async throws -> Int {
        try vision.see(images)
        return try vision.place(prompt, engine)
    }

    /// The same for the tile of the bundle's golden vector.
    func beginProbe(_ prompt: [Int], isolation: isolated (any Actor)?) async throws -> Int {
        try vision.seeProbe()
        return try vision.place(prompt, engine)
    }

    /// Feed 1...`ModelLimits.prefillChunk` tokens from position `start` on; the logits after the last one.
    func logits(_ tokens: [Int], start: Int, isolation: isolated (any Actor)?) async throws -> [Float] {
        let ids = tokens.map { Int64($0) }
        let positions = ids.indices.map { Int64(start + $0) }
        let rows = [Int64(ids.count - 1)]
        try EngineCall.checked {
            SampleKit_session_forward(engine.session, ids, positions, ids.count, rows, 1, $0, $1)
        }
        return try engine.output(0)
    }

    /// As many tokens as a call takes that holds all that they see, of a prompt that is read from `start` to `end`.
    func callSize(_ start: Int, _ end: Int) throws -> Int {
        let size = SampleKit_session_call_size(engine.session, Int64(start), Int64(end))
        if size < 1 { throw EdgecError.promptNotWhole("a call takes \(ModelLimits.prefillChunk) tokens") }
        return min(Int(size), ModelLimits.prefillChunk)
    }
}
