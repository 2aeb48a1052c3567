
/// The artifact's vision encoder: the function `see` makes rows of the tiles of images, which a decoder with static methods reads in
/// the places of a prompt's image tokens.
final class Vision: RowSource {
    private let preparation: ImagePreparation
    private let runtime: any Runtime
    private let method: MethodFacts
    /// Numbers of a row.
    private let width: Int
    /// What the images were whose rows there are, in their order; nil: unknown.
    private var seen: [EncodedImageRows]?
    private var rows: [Float] = []
    private var placed = PlacedImages()
    private var places = ImagePlaces.none

    init(_ runtime: any Runtime, _ bundle: CheckedBundle) throws {
        self.runtime = runtime
        method = try MethodFacts.named("vision_encoder")
        guard let made = method.outputs.first else { throw EdgecError.runtimeDiffers("see has no output") }
        width = made.shape.last ?? 0
        preparation = try ImagePreparation(bundle)
    }

    /// The text of a prompt as the tokenizer gets it, with the places of its images written out.
    func write(_ text: String, _ images: [Pixels]) throws -> String { try preparation.write(text, images) }

    /// Put images into the places of a prompt; returns how many of its first tokens the cache may still hold.
    func begin(_ prompt: [Int], _ images: [Pixels], isolation: isolated (any Actor)?) async throws -> Int {
        let before = placed.take()
        let tiles = try images.reduce(0) { $0 + (try preparation.count($1, of: images.count)) }
        try place(prompt, tiles)
        try await see(images, isolation: isolation)
        return placed.put(seen, after: before, kept: places.kept, of: prompt.count)
    }

    /// The same for the tile of the bundle's golden vector.
    func beginProbe(_ prompt: [Int], isolation: isolated (any Actor)?) async throws -> Int {
        (seen, rows) = (nil, [])
        _ = placed.take()
        try place(prompt, 1)
        rows = try await read(ProbeTile.values, isolation: isolation)
        return places.kept
    }

    /// As many tokens as a call takes that holds all that they see, of a prompt that is read from `start` to `end`.
    func callSize(_ start: Int, _ end: Int) throws -> Int {
        let size = places.callSize(start, end)
        if size < 1 { throw EdgecError.promptNotWhole("a call takes \(ModelLimits.prefillChunk) tokens") }
        return size
    }

    /// The values of an input that goes with tokens from `start` on, of which there are `count`; zeros follow them. Nil:
    /// the input is another.
    func values(_ facts: TensorFacts, start: Int, count: Int) -> InputTensor.Values? {
        let room = facts.shape.reduce(1, *)
        switch facts.name {
        case "input_embeds": return .floats(features(start, count, room))
        case "embeds_mask": return .floats((0..<room).map { $0 < count && places.row(start + $0) != nil ? 1 : 0 })
        case "span_end": return .integers((0..<room).map { $0 < count ? places.spanEnd(start + $0) : 0 })
        case "mrope_positions":
            let tokens = room / 3
            return .integers(
                (0..<room).map { $0 % tokens < count ? places.part($0 / tokens, start + $0 % tokens) : 0 })
        default: return nil
        }
    }

    private func features(_ start: Int, _ count: Int, _ room: Int) -> [Float] {
        var values = [Float](repeating: 0, count: room)
        for token in 0..<count {
            guard let row = places.row(start + token) else { continue }
            values.replaceSubrange((token * width)..<((token + 1) * width), with: rows[(row * width)..<((row + 1) * width)])
        }
        return values
    }

    /// Refuse a prompt before anything is seen: one that does not fit its images, or more of which must come in one call
    /// than a call takes.
    private func place(_ prompt: [Int], _ tiles: Int) throws {
        places = .none
        let found = try preparation.places(prompt, tiles: tiles)
        var start = 0
        while start < prompt.count {
            let size = found.callSize(start, prompt.count)
            if size < 1 { throw EdgecError.promptNotWhole("a call takes \(ModelLimits.prefillChunk) tokens") }
            start += size
        }
        places = found
    }

    /// Let the image encoder read the images, unless it has just read the same. It may be cancelled before each tile.
    private func see(_ images: [Pixels], isolation: isolated (any Actor)?) async throws {
        let asked = images.map { EncodedImageRows($0) }
        if asked == seen { return }
        (seen, rows) = (nil, [])
        for image in images {
            try Task.checkCancellation()
            for tile in try preparation.tiles(image, of: images.count) {
                try Task.checkCancellation()
                rows += try await read(tile, isolation: isolation)
            }
        }
        seen = asked
    }

    private func read(_ tile: [Float], isolation: isolated (any Actor)?) async throws -> [Float] {
        guard let facts = method.inputs.first else { throw EdgecError.runtimeDiffers("see has no input") }
        let made = try await runtime.run(method, [InputTensor(facts, .floats(tile))], isolation: isolation)
        let count = made.first?.count ?? 0, wanted = ImageLimits.tileTokens * width
        if count != wanted { throw EdgecError.runtimeDiffers("see gives \(count) numbers of a tile instead of \(wanted)") }
        return made[0]
    }
}

/// A decoder with static methods and what reads its images.
final class VisionDecoder {
    let vision: Vision
    private let decoder: ModelDecoder

    init(_ runtime: any Runtime, _ bundle: CheckedBundle) throws {
        vision = try Vision(runtime, bundle)
        decoder = try ModelDecoder(runtime, vision)
    }

    /// Put images into the places of a prompt; returns how many of its first tokens the cache may still hold.
    func begin(_ prompt: [Int], _ images: [Pixels], isolation: isolated (any Actor)?) async throws -> Int {
        try await vision.begin(prompt, images, isolation: isolation)
    }

    /// The same for the tile of the bundle's golden vector.
    func beginProbe(_ prompt: [Int], isolation: isolated (any Actor)?) async throws -> Int {
        try await vision.beginProbe(prompt, isolation: isolation)
    }

    /// Feed 1...`ModelLimits.prefillChunk` tokens from position `start` on; the logits after the last one.
    func logits(_ tokens: [Int], start: Int, isolation: isolated (any Actor)?) async throws -> [Float] {
        try await decoder.logits(tokens, start: start, isolation: isolation)
    }

    /// As many tokens as a call takes that holds all that they see, of a prompt that is read from `start` to `end`.
    func callSize(_ start: Int, _ end: Int) throws -> Int { try vision.callSize(start, end) }
}
