import SampleKitEngine

/// Calls of the C interface of images that can fail.
enum VisionCall {
    /// A call that fills a text where it fails; images and prompts that are refused are errors of their own.
    static func checked(_ call: (UnsafeMutablePointer<CChar>, Int) -> Int32) throws {
        let (status, why) = EngineCall.told(call)
        if status == 0 { return }
        switch EdgecVisionStatus(rawValue: .init(truncatingIfNeeded: status)) {
        case EDGEC_IMAGE_SIZE: throw EdgecError.imageRefused(.tooLarge, why: why)
        case EDGEC_IMAGES_TOO_MANY: throw EdgecError.imagesTooMany(why)
        case EDGEC_IMAGES_MISPLACED: throw EdgecError.imagesMisplaced(why)
        case EDGEC_IMAGE_NEEDED: throw EdgecError.imageNeeded(why)
        case EDGEC_SPAN_TOO_LONG: throw EdgecError.promptNotWhole(why)
        default: throw EdgecError.engineFailed(why)
        }
    }

    /// Lend an image's pixels to a call.
    static func lent(_ image: Pixels, _ call: (UnsafePointer<EdgecImage>) throws -> Void) throws {
        try image.rgb.withUnsafeBufferPointer { bytes in
            let view = EdgecImage(
                pixels: bytes.baseAddress, width: Int64(image.width), height: Int64(image.height), line_bytes: 0,
                pixel_bytes: 3)
            try withUnsafePointer(to: view) { try call($0) }
        }
    }

    /// Width and height of each image.
    static func sizes(_ images: [Pixels]) -> [Int64] { images.flatMap { [Int64($0.width), Int64($0.height)] } }
}
