import Foundation

/// How a model is loaded.
public struct LoadOptions: Sendable {
    /// The bundle's folder, where it is neither a resource nor an asset pack of this package. With a pinned key
    /// (`edgec embed --public-key`) it may be another bundle that the key's holder signed and that fits this package.
    public var bundle: URL?
    /// Hash every file at every load, not only at the first.
    public var hashAlways: Bool
    /// Labels of golden texts whose token ids may differ from those at export.
    public var acceptedTexts: Set<String>
    /// Called with what `load` does, on no particular thread.
    public var progress: (@Sendable (LoadStep) -> Void)?

    public init(
        bundle: URL? = nil, hashAlways: Bool = false, acceptedTexts: Set<String> = [],
        progress: (@Sendable (LoadStep) -> Void)? = nil
    ) {
        self.bundle = bundle
        self.hashAlways = hashAlways
        self.acceptedTexts = acceptedTexts
        self.progress = progress
    }
}

/// A loaded sentence encoder, which makes one vector of a text. Calls are answered one after another.
public actor EdgecModel: OneCallAtATime {
    private let runtime: any Runtime
    private let encoder: TextEncoder
    let gate = CallGate()

    /// Find the bundle, check it, check the memory, load it; at the first start also replay its golden vectors.
    public static func load(_ options: LoadOptions = LoadOptions()) async throws -> EdgecModel {
        let tell = options.progress ?? { _ in }
        tell(.finding)
        let folder = try await BundleLocation.find(options.bundle)
        let bundle = try BundleCheck.run(folder, isGiven: options.bundle != nil, always: options.hashAlways, tell)
        try MemoryCheck.run(bundle.neededBytes)
        tell(.loading)
        let encoder = try await TextEncoder(folder)
        let runtime = try await ModelRuntime(bundle)
        if !bundle.isDone("golden") {
            tell(.comparing)
            try GoldenTexts.check(folder, encoder, accepted: options.acceptedTexts)
            try await GoldenFunctions.check(folder, runtime)
            try bundle.finish("golden")
        }
        return EdgecModel(runtime, encoder)
    }

    private init(_ runtime: any Runtime, _ encoder: TextEncoder) {
        self.runtime = runtime
        self.encoder = encoder
    }

    /// The vector of a text, `EncoderLimits.width` values; of length 1 where the model's authors normalise.
    ///
    /// - Parameter truncate: cut a text above `EncoderLimits.mostTokens` tokens as the model's tokenizer does, instead of
    ///   throwing `EdgecError.textTooLong`.
    /// - Parameter promptName: which of `EncoderLimits.prompts` goes before the text; nil: the default, if there is one;
    ///   empty: none.
    public func embed(_ text: String, truncate: Bool = false, promptName: String? = nil) async throws -> [Float] {
        try await embed([text], truncate: truncate, promptName: promptName)[0]
    }

    /// The vector of each text, in order; all are read before the first is computed.
    public func embed(
        _ texts: [String], truncate: Bool = false, promptName: String? = nil
    ) async throws -> [[Float]] {
        let read = try texts.map { try encoder.read($0, truncate: truncate, promptName: promptName) }
        return try await exclusively {
            var vectors: [[Float]] = []
            for text in read {
                try Task.checkCancellation()
                vectors.append(try await vector(text))
            }
            return vectors
        }
    }

    /// How many tokens a text has, with those that the tokenizer puts around it and without a prompt.
    public func tokenCount(_ text: String) -> Int { encoder.encode(text).count }

    private func vector(_ text: ReadText) async throws -> [Float] {
        let inputs = try encoder.inputs(text)
        let outputs = try await runtime.run(ModelFacts.methods[0], inputs, isolation: self)
        guard let vector = outputs.first, vector.count == EncoderLimits.width else {
            throw EdgecError.runtimeDiffers("a vector has \(outputs.first?.count ?? 0) values")
        }
        return vector
    }
}
