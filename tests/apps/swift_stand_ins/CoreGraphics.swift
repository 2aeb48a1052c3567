// Stand-in: of Core Graphics, images of eight bits a channel with red, green, blue and perhaps opacity, or with a palette.
import Foundation
public typealias CFString = String
public enum CGColorSpaceModel: Int32, Sendable { case unknown = -1, monochrome, rgb, cmyk, lab, deviceN, indexed, pattern, XYZ }
public final class CGColorSpace {
    public static let sRGB: CFString = "kCGColorSpaceSRGB"
    public let model: CGColorSpaceModel
    public init?(name: CFString) { model = .rgb }
    /// A palette of a test.
    public init(indexed: Void) { model = .indexed }
}
public enum CGImageAlphaInfo: UInt32, Sendable {
    case none, premultipliedLast, premultipliedFirst, last, first, noneSkipLast, noneSkipFirst, alphaOnly
}
public struct CGBitmapInfo: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}
public enum CGColorRenderingIntent: Int32, Sendable { case defaultIntent, absoluteColorimetric, relativeColorimetric, perceptual, saturation }
public final class CGImage {
    public let width, height: Int
    public let colorSpace: CGColorSpace?
    /// Red, green, blue and opacity of each pixel, for the stand-ins.
    public let pixels: [UInt8]
    public init(width: Int, height: Int, pixels: [UInt8], isIndexed: Bool = false) {
        (self.width, self.height, self.pixels) = (width, height, pixels)
        colorSpace = isIndexed ? CGColorSpace(indexed: ()) : CGColorSpace(name: CGColorSpace.sRGB)
    }
}
public final class CGContext {
    private let width, height: Int
    private var drawn: [UInt8]
    public init?(
        data: UnsafeMutableRawPointer?, width: Int, height: Int, bitsPerComponent: Int, bytesPerRow: Int,
        space: CGColorSpace, bitmapInfo: UInt32
    ) {
        if bitmapInfo != CGImageAlphaInfo.premultipliedLast.rawValue || bitsPerComponent != 8 { return nil }
        (self.width, self.height, drawn) = (width, height, [])
    }
    public func draw(_ image: CGImage, in place: CGRect) {
        if place == CGRect(x: 0, y: 0, width: width, height: height) { drawn = image.pixels }
    }
    public func makeImage() -> CGImage? {
        drawn.count == 4 * width * height ? CGImage(width: width, height: height, pixels: drawn) : nil
    }
}
