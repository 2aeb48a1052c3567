import CryptoKit

/// What tells an image from others.
struct EncodedImageRows: Equatable {
    let width, height: Int
    let sha256: [UInt8]

    init(_ image: Pixels) {
        (width, height) = (image.width, image.height)
        sha256 = image.rgb.withUnsafeBytes { Array(SHA256.hash(data: $0)) }
    }
}

/// The images in the places of the prompt that the cache was computed with.
struct PlacedImages {
    /// Nil: unknown.
    private var images: [EncodedImageRows]?

    /// Others come; nothing is known until `put`.
    mutating func take() -> [EncodedImageRows]? {
        defer { images = nil }
        return images
    }

    /// These are in their places now, after `before`; of a prompt of so many tokens the first `kept` are the same without
    /// them. Returns how many the cache may still hold.
    mutating func put(_ seen: [EncodedImageRows]?, after before: [EncodedImageRows]?, kept: Int, of tokens: Int) -> Int {
        images = seen
        guard let before, before == seen, before.isEmpty || !VisionFacts.wholePrompt else { return kept }
        return tokens
    }
}

/// The tile of the bundle's golden vector.
enum ProbeTile {
    static var values: [Float] { (0..<VisionFacts.goldenValues).map(number) }

    /// Numbers that every language can compute alike: (2654435761 * i + 12345) mod 2^32, in -1..1.
    private static func number(_ index: Int) -> Float {
        Float(Double((2_654_435_761 &* UInt64(index) &+ 12_345) % (1 << 32)) / 2_147_483_648 - 1)
    }
}
