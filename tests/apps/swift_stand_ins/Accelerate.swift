// Stand-in: of Accelerate, vImage's buffers of images with eight bits a channel; lines are longer than their pixels.
import CoreGraphics
import Foundation
public typealias vImagePixelCount = UInt
public enum vImage {
    public enum Error: Int, Swift.Error { case noError = 0, memoryAllocationError = -21771, invalidImageFormat = -21778 }
    public struct Options: OptionSet, Sendable {
        public static let noFlags = Options([])
        public let rawValue: UInt32
        public init(rawValue: UInt32) { self.rawValue = rawValue }
    }
}
public struct vImage_CGImageFormat {
    public init?(
        bitsPerComponent: Int, bitsPerPixel: Int, colorSpace: CGColorSpace, bitmapInfo: CGBitmapInfo,
        renderingIntent: CGColorRenderingIntent = .defaultIntent
    ) {
        let alpha = CGImageAlphaInfo.last.rawValue
        if bitsPerComponent != 8 || bitsPerPixel != 32 || bitmapInfo.rawValue != alpha || colorSpace.model != .rgb {
            return nil
        }
    }
}
public struct vImage_Buffer {
    public var data: UnsafeMutableRawPointer!
    public var height, width: vImagePixelCount
    public var rowBytes: Int
    public init(cgImage image: CGImage, format: vImage_CGImageFormat, flags options: vImage.Options = .noFlags) throws {
        // The real one's support of palettes is not documented.
        if image.colorSpace?.model == .indexed { throw vImage.Error.invalidImageFormat }
        (width, height, rowBytes) = (UInt(image.width), UInt(image.height), 4 * image.width + 12)
        data = .allocate(byteCount: rowBytes * image.height, alignment: 64)
        for y in 0..<image.height {
            image.pixels[(4 * image.width * y)..<(4 * image.width * (y + 1))].withUnsafeBytes { line in
                (data + rowBytes * y).copyMemory(from: line.baseAddress!, byteCount: line.count)
            }
        }
    }
    public func free() { data.deallocate() }
}
