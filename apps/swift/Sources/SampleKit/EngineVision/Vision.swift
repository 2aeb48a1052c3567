import SampleKitEngine
import Foundation

/// The bundle's vision encoder in edgec's engine, closed with this object: images become rows, which take the place of a prompt's
/// image tokens.
final class Vision {
    private let vision: OpaquePointer
    /// What the images were whose rows there are, in their order; nil: unknown.
    private var seen: [EncodedImageRows]?
    private var placed = PlacedImages()

    init(_ bundle: CheckedBundle) throws {
        vision = try EngineCall.opened {
            SampleKit_vision_open(bundle.folder.path, bundle.artifact.path, nil, nil, $0, $1)
        }
    }

    deinit { SampleKit_vision_close(vision) }

    /// The text of a prompt as the tokenizer gets it, with the places of its images written out.
    func write(_ text: String, _ images: [Pixels]) throws -> String {
        let sizes = VisionCall.sizes(images)
        var written: UnsafePointer<CChar>?
        var bytes = 0
        try VisionCall.checked {
            SampleKit_vision_prompt(
                vision, text, text.utf8.count, sizes, Int64(images.count), &written, &bytes, $0, $1)
        }
        return String(decoding: UnsafeRawBufferPointer(start: written, count: bytes), as: UTF8.self)
    }

    /// Let the image encoder read the images, unless it has just read the same. It may be cancelled before each tile.
    func see(_ images: [Pixels]) throws {
        let asked = images.map { EncodedImageRows($0) }
        if asked == seen { return }
        seen = nil
        try VisionCall.checked { SampleKit_vision_begin(vision, Int64(images.count), $0, $1) }
        for image in images {
            try Task.checkCancellation()
            try VisionCall.lent(image) { pixels in
                try VisionCall.checked { SampleKit_vision_add(vision, pixels, $0, $1) }
            }
        }
        var left: Int64 = 0
        repeat {
            try Task.checkCancellation()
            try VisionCall.checked { SampleKit_vision_step(vision, &left, $0, $1) }
        } while left > 0
        seen = asked
    }

    /// Let the image encoder read the tile of the bundle's golden vector.
    func seeProbe() throws {
        seen = nil
        let tile = ProbeTile.values
        try VisionCall.checked { SampleKit_vision_encode(vision, tile, tile.count, $0, $1) }
    }

    /// Put the rows into the places of a prompt; returns how many of its first tokens the cache may still hold.
    func place(_ prompt: [Int], _ decoder: EngineSession) throws -> Int {
        let before = placed.take()
        var kept: Int64 = 0
        let tokens = prompt.map { Int64($0) }
        try VisionCall.checked {
            SampleKit_vision_place(vision, decoder.session, tokens, tokens.count, &kept, $0, $1)
        }
        return placed.put(seen, after: before, kept: Int(kept), of: prompt.count)
    }
}
