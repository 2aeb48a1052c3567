#if canImport(ImageIO)
import CoreGraphics
import ImageIO
#endif
import Foundation

/// An image for the model: plain pixels, an encoded image in memory or in a file, or one of Core Graphics.
public struct ModelImage: Sendable, Equatable {
    enum Source: Sendable, Equatable {
        case pixels(Pixels)
        #if canImport(ImageIO)
        case data(Data)
        case file(URL)
        case drawn(DrawnImage)
        #endif
    }

    let source: Source

    /// An upright image of `width` x `height` pixels, line by line; each pixel has red, green and blue, a byte each.
    public init(width: Int, height: Int, rgb: [UInt8]) throws {
        source = .pixels(try Pixels(width: width, height: height, rgb: rgb))
    }

    #if canImport(ImageIO)
    /// An image as a file holds it, such as a JPEG or HEIC of a photo picker. It is turned as the camera noted.
    public init(data: Data) { source = .data(data) }

    /// An image in a file, which is read with each prompt. It is turned as the camera noted.
    public init(file: URL) { source = .file(file) }

    /// An image of Core Graphics, which is turned by an orientation, such as the one of a `UIImage`.
    public init(cgImage: CGImage, orientation: CGImagePropertyOrientation = .up) {
        source = .drawn(DrawnImage(image: cgImage, orientation: orientation))
    }
    #endif
}

#if canImport(ImageIO)
/// An image of Core Graphics; it never changes, so that any thread may read it.
struct DrawnImage: @unchecked Sendable, Equatable {
    let image: CGImage
    let orientation: CGImagePropertyOrientation

    static func == (left: DrawnImage, right: DrawnImage) -> Bool {
        left.image === right.image && left.orientation == right.orientation
    }
}
#endif

extension ChatMessage {
    /// A user's message that shows images, in front of its text.
    public init(_ role: Role, _ content: String, images: [ModelImage]) {
        self.init(role, content, tool: "", images: images)
    }
}

extension EdgecModel {
    /// Continue a text about images, as `generate` does for text alone. They come before the text, unless it names their
    /// places by the model's own placeholder.
    public nonisolated func generate(
        prompt: String, images: [ModelImage], options: GenerationOptions = GenerationOptions(),
        schema: ModelSchema? = nil
    ) -> AsyncThrowingStream<String, any Error> {
        stream(options, schema) { try $0.prompt(prompt, images) }
    }

    /// Answer a text about images with a value, as `generate` does for text alone.
    public nonisolated func generate<Value: Decodable & Sendable>(
        prompt: String, images: [ModelImage], options: GenerationOptions = GenerationOptions(),
        as type: Value.Type, schema: ModelSchema
    ) async throws -> Value {
        let json = try await whole(options, schema) { try $0.prompt(prompt, images) }
        return try JSONDecoder().decode(type, from: Data(json.utf8))
    }

    /// The tokens of a text about images.
    func prompt(_ text: String, _ images: [ModelImage]) throws -> [Int] {
        if images.isEmpty { return tokenization.encode(afterSystemPrompt: text) }
        return try session.prompt(text, images, rendered: false, tokenization)
    }

    /// The tokens of a conversation with its images; it begins with the bundle's system prompt unless it brings its own.
    func prompt(_ messages: [ChatMessage]) throws -> [Int] {
        let all = tokenization.opened(messages)
        if let pieces = ReplyFacts.plain[0] { return try session.prompt(all, pieces, tokenization) }
        if all.contains(where: { !$0.images.isEmpty }) {
            throw EdgecError.messageRefused("images are not in the pieces of the prompt")
        }
        return try tokenization.encode(all)
    }
}
