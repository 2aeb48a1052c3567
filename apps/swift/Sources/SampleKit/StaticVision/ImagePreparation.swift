import SampleKitEngine
import Foundation

/// A bundle's description of its images, carried out by the part of edgec's engine that prepares them.
final class ImagePreparation {
    private let described: OpaquePointer

    init(_ bundle: CheckedBundle) throws {
        described = try EngineCall.opened { SampleKit_images_open(bundle.folder.path, nil, $0, $1) }
    }

    deinit { SampleKit_images_close(described) }

    /// The text of a prompt as the tokenizer gets it, with the places of its images written out.
    func write(_ text: String, _ images: [Pixels]) throws -> String {
        let sizes = VisionCall.sizes(images)
        var written: UnsafePointer<CChar>?
        var bytes = 0
        try VisionCall.checked {
            SampleKit_images_prompt(
                described, text, text.utf8.count, sizes, Int64(images.count), &written, &bytes, $0, $1)
        }
        return String(decoding: UnsafeRawBufferPointer(start: written, count: bytes), as: UTF8.self)
    }

    /// How many tiles an image becomes, one of so many in its prompt.
    func count(_ image: Pixels, of images: Int) throws -> Int {
        var grid = EdgecImageTiles()
        try VisionCall.checked {
            SampleKit_images_tiles(
                described, Int64(image.width), Int64(image.height), Int64(images), &grid, $0, $1)
        }
        return Int(grid.tiles)
    }

    /// The tiles of an image as `see` reads them.
    func tiles(_ image: Pixels, of images: Int) throws -> [[Float]] {
        let size = VisionFacts.goldenValues
        var all = [Float](repeating: 0, count: try count(image, of: images) * size)
        try VisionCall.lent(image) { pixels in
            try all.withUnsafeMutableBufferPointer { values in
                let (start, room) = (values.baseAddress, values.count)
                try VisionCall.checked {
                    SampleKit_images_prepare(described, pixels, Int64(images), start, room, $0, $1)
                }
            }
        }
        return stride(from: 0, to: all.count, by: size).map { Array(all[$0..<($0 + size)]) }
    }

    /// Where the rows of so many tiles lie in a prompt.
    func places(_ prompt: [Int], tiles: Int) throws -> ImagePlaces {
        let tokens = prompt.map { Int64($0) }
        var found = EdgecImagePlaces()
        try VisionCall.checked {
            SampleKit_images_places(described, tokens, tokens.count, Int64(tiles), &found, $0, $1)
        }
        func numbers(_ start: UnsafePointer<Int64>?, _ count: Int) -> [Int] {
            UnsafeBufferPointer(start: start, count: start == nil ? 0 : count).map { Int($0) }
        }
        return ImagePlaces(
            tokens: prompt.count, rows: numbers(found.rows, Int(found.row_count)),
            spanEnd: numbers(found.span_end, prompt.count), parts: numbers(found.mrope, 3 * prompt.count),
            next: Int(found.mrope_next), kept: Int(found.kept))
    }
}

/// Where the rows of a prompt's images lie, and what follows from it for its tokens; those after the prompt are text.
struct ImagePlaces {
    private let tokens: Int
    /// By position; -1: the token is text.
    private let rowOf: [Int]
    /// Empty: every token sees itself last.
    private let reaches: [Int]
    /// Positions of three parts, one part of all tokens after the other; empty where positions have one.
    private let parts: [Int]
    private let next: Int
    /// Tokens at the beginning that are read as they were without the images.
    let kept: Int

    init(tokens: Int, rows: [Int], spanEnd: [Int], parts: [Int], next: Int, kept: Int) {
        (self.tokens, reaches, self.parts, self.next, self.kept) = (tokens, spanEnd, parts, next, kept)
        var rowOf = [Int](repeating: -1, count: tokens)
        for (row, position) in rows.enumerated() { rowOf[position] = row }
        self.rowOf = rowOf
    }

    /// No prompt at all.
    static let none = ImagePlaces(tokens: 0, rows: [], spanEnd: [], parts: [], next: 0, kept: 0)

    /// The row that takes a token's place; nil where the token is text.
    func row(_ position: Int) -> Int? { position < tokens && rowOf[position] >= 0 ? rowOf[position] : nil }

    /// The last position that a token sees.
    func spanEnd(_ position: Int) -> Int { position < reaches.count ? reaches[position] : position }

    /// Time, height or width of a token.
    func part(_ part: Int, _ position: Int) -> Int {
        position < tokens ? parts[part * tokens + position] : next + position - tokens
    }

    /// The most tokens of a call that holds all that they see, of a text that is read from `start` to `end`; 0: none does.
    func callSize(_ start: Int, _ end: Int) -> Int {
        var size = 0, furthest = start
        for position in start..<min(end, start + ModelLimits.prefillChunk) {
            furthest = max(furthest, spanEnd(position))
            // Nothing before it sees beyond this token.
            if furthest <= position { size = position - start + 1 }
        }
        return size
    }
}
