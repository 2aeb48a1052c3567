#if canImport(ImageIO)
import Foundation
#endif

/// An upright image as bytes, line by line: three for each pixel.
struct Pixels: Sendable, Equatable {
    let width, height: Int
    let rgb: [UInt8]

    init(width: Int, height: Int, rgb: [UInt8]) throws {
        if width < 1 || height < 1 {
            throw EdgecError.imageRefused(.unreadable, why: "it has \(width) x \(height) pixels")
        }
        let (pixels, overflows) = width.multipliedReportingOverflow(by: height)
        if overflows || !rgb.count.isMultiple(of: 3) || rgb.count / 3 != pixels {
            let why = "\(rgb.count) bytes are not \(width) x \(height) pixels of three bytes"
            throw EdgecError.imageRefused(.unreadable, why: why)
        }
        (self.width, self.height, self.rgb) = (width, height, rgb)
    }

    /// The image upright, by the orientation that EXIF gives to it as it is stored.
    func turned(_ orientation: Int) throws -> Pixels {
        if !(2...8).contains(orientation) { return self }
        let across = orientation >= 5
        let fromRight = [2, 3, 7, 8].contains(orientation), fromBelow = [3, 4, 6, 7].contains(orientation)
        let wide = across ? height : width, high = across ? width : height
        var out: [UInt8] = []
        out.reserveCapacity(rgb.count)
        for y in 0..<high {
            for x in 0..<wide {
                let column = across ? y : x, row = across ? x : y
                let left = fromRight ? width - 1 - column : column
                let above = fromBelow ? height - 1 - row : row
                let from = 3 * (above * width + left)
                out.append(rgb[from])
                out.append(rgb[from + 1])
                out.append(rgb[from + 2])
            }
        }
        return try Pixels(width: wide, height: high, rgb: out)
    }
}

/// Turns images into upright pixels; what is too large is refused before it is decoded.
enum ImageReader {
    static func pixels(_ image: ModelImage) throws -> Pixels {
        switch image.source {
        case .pixels(let pixels):
            try checkSize(pixels.width, pixels.height)
            return pixels
        #if canImport(ImageIO)
        case .data(let data): return try ImageDecoder.pixels(data)
        case .file(let file): return try ImageDecoder.pixels(bytes(file))
        case .drawn(let drawn):
            return try ImageDecoder.colours(drawn.image).turned(Int(drawn.orientation.rawValue))
        #endif
        }
    }

    static func checkSize(_ width: Int, _ height: Int) throws {
        if width < 1 || height < 1 {
            throw EdgecError.imageRefused(.unreadable, why: "it has \(width) x \(height) pixels")
        }
        if width > ImageLimits.mostPixels / height {
            let why = "it has \(width) x \(height) pixels, and the most are \(ImageLimits.mostPixels)"
            throw EdgecError.imageRefused(.tooLarge, why: why)
        }
        if max(width, height) > min(width, height) * ImageLimits.mostRatio {
            let why = "it has \(width) x \(height) pixels: one side is over \(ImageLimits.mostRatio) times the other"
            throw EdgecError.imageRefused(.tooLarge, why: why)
        }
    }

    #if canImport(ImageIO)
    private static func bytes(_ file: URL) throws -> Data {
        do {
            return try Data(contentsOf: file, options: .mappedIfSafe)
        } catch {
            throw EdgecError.imageRefused(.unreadable, why: error.localizedDescription)
        }
    }
    #endif
}
