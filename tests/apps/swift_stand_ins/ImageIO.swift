// Stand-in: of ImageIO, sources of one image. What the system would decode is in a table that a test gives.
import CoreGraphics
import Foundation
public typealias CFData = Data
public typealias CFDictionary = NSDictionary
public let kCGImagePropertyPixelWidth: CFString = "PixelWidth"
public let kCGImagePropertyPixelHeight: CFString = "PixelHeight"
public let kCGImagePropertyOrientation: CFString = "Orientation"
public let kCGImagePropertyDepth: CFString = "Depth"
public let kCGImagePropertyColorModel: CFString = "ColorModel"
public let kCGImagePropertyColorModelGray: CFString = "Gray"
public enum CGImagePropertyOrientation: UInt32, Sendable {
    case up = 1, upMirrored, down, downMirrored, leftMirrored, right, rightMirrored, left
}
public enum CGImageSourceStatus: Int32, Sendable {
    case statusUnexpectedEOF = -5, statusInvalidData, statusUnknownType, statusReadingHeader, statusIncomplete
    case statusComplete
}
/// What the system knows of a file; without pixels it is damaged.
public struct FileForTests: Decodable, Sendable {
    public let width, height: Int
    public let orientation, depth: Int?
    public let isGrey, isIndexed: Bool
    /// Red, green, blue and opacity of each pixel as it is stored.
    public let pixels: Data?
}
public enum FilesForTests {
    nonisolated(unsafe) public static var known: [Data: FileForTests] = [:]
    /// How many images were decoded.
    nonisolated(unsafe) public static var decoded = 0
}
public final class CGImageSource {
    let file: FileForTests?
    init(_ file: FileForTests?) { self.file = file }
}
public func CGImageSourceCreateWithData(_ data: CFData, _ options: CFDictionary?) -> CGImageSource? {
    CGImageSource(FilesForTests.known[data])
}
public func CGImageSourceCopyPropertiesAtIndex(
    _ source: CGImageSource, _ index: Int, _ options: CFDictionary?
) -> CFDictionary? {
    guard let file = source.file, index == 0 else { return nil }
    var facts: [String: Any] = [kCGImagePropertyPixelWidth: file.width, kCGImagePropertyPixelHeight: file.height]
    if let orientation = file.orientation { facts[kCGImagePropertyOrientation] = orientation }
    if let depth = file.depth { facts[kCGImagePropertyDepth] = depth }
    facts[kCGImagePropertyColorModel] = file.isGrey ? kCGImagePropertyColorModelGray : "RGB"
    return NSDictionary(dictionary: facts)
}
public func CGImageSourceCreateImageAtIndex(
    _ source: CGImageSource, _ index: Int, _ options: CFDictionary?
) -> CGImage? {
    FilesForTests.decoded += 1
    guard let file = source.file, let pixels = file.pixels, index == 0 else { return nil }
    return CGImage(width: file.width, height: file.height, pixels: Array(pixels), isIndexed: file.isIndexed)
}
public func CGImageSourceGetStatusAtIndex(_ source: CGImageSource, _ index: Int) -> CGImageSourceStatus {
    source.file?.pixels == nil ? .statusUnexpectedEOF : .statusComplete
}
