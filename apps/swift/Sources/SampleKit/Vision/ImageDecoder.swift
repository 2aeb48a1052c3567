#if canImport(ImageIO)
import Accelerate
import CoreGraphics
import Foundation
import ImageIO

/// Decodes images by the system.
enum ImageDecoder {
    /// The upright pixels of an encoded image, which is checked before it is decoded.
    static func pixels(_ data: Data) throws -> Pixels {
        guard let source = CGImageSourceCreateWithData(data as CFData, nil),
            let facts = CGImageSourceCopyPropertiesAtIndex(source, 0, nil) as? [CFString: Any],
            let width = facts[kCGImagePropertyPixelWidth] as? Int,
            let height = facts[kCGImagePropertyPixelHeight] as? Int
        else { throw unreadable("the system knows no such kind of image") }
        try ImageReader.checkSize(width, height)
        try ImageHeader.check(data)
        try checkGrey(facts)
        guard let image = CGImageSourceCreateImageAtIndex(source, 0, nil),
            CGImageSourceGetStatusAtIndex(source, 0) == .statusComplete
        else { throw unreadable("it is damaged") }
        return try colours(image).turned(facts[kCGImagePropertyOrientation] as? Int ?? 1)
    }

    /// The colours of an image in sRGB, as it is stored. Transparency is dropped: the colours below it stay as they are.
    static func colours(_ image: CGImage) throws -> Pixels {
        try ImageReader.checkSize(image.width, image.height)
        let alpha = CGBitmapInfo(rawValue: CGImageAlphaInfo.last.rawValue)
        guard let space = CGColorSpace(name: CGColorSpace.sRGB),
            let format = vImage_CGImageFormat(
                bitsPerComponent: 8, bitsPerPixel: 32, colorSpace: space, bitmapInfo: alpha,
                renderingIntent: .defaultIntent)
        else { throw unreadable("the system has no sRGB") }
        let plain = try withoutPalette(image, space)
        guard let buffer = try? vImage_Buffer(cgImage: plain, format: format) else {
            throw unreadable("its colours cannot be converted")
        }
        defer { buffer.free() }
        return try Pixels(width: image.width, height: image.height, rgb: opaque(buffer, image.width, image.height))
    }

    /// Palettes are left to Core Graphics, where wholly transparent pixels lose their colours.
    private static func withoutPalette(_ image: CGImage, _ space: CGColorSpace) throws -> CGImage {
        if image.colorSpace?.model != .indexed { return image }
        let context = CGContext(
            data: nil, width: image.width, height: image.height, bitsPerComponent: 8, bytesPerRow: 0, space: space,
            bitmapInfo: CGImageAlphaInfo.premultipliedLast.rawValue)
        context?.draw(image, in: CGRect(x: 0, y: 0, width: image.width, height: image.height))
        guard let drawn = context?.makeImage() else { throw unreadable("its palette cannot be drawn") }
        return drawn
    }

    private static func opaque(_ buffer: vImage_Buffer, _ width: Int, _ height: Int) -> [UInt8] {
        guard let start = buffer.data else { return [] }
        return [UInt8](unsafeUninitializedCapacity: 3 * width * height) { to, count in
            for y in 0..<height {
                let line = (start + y * buffer.rowBytes).assumingMemoryBound(to: UInt8.self)
                for x in 0..<width {
                    for colour in 0..<3 { to[count + colour] = line[4 * x + colour] }
                    count += 3
                }
            }
        }
    }

    private static func checkGrey(_ facts: [CFString: Any]) throws {
        guard facts[kCGImagePropertyColorModel] as? String == kCGImagePropertyColorModelGray as String,
            let depth = facts[kCGImagePropertyDepth] as? Int, depth > 8
        else { return }
        throw unreadable("it has grey of \(depth) bits")
    }

    private static func unreadable(_ why: String) -> EdgecError { .imageRefused(.unreadable, why: why) }
}
#endif
