import Foundation
import Tokenizers

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

/// A loaded model that transcribes speech. Calls are answered one after another. Cancelling a call's task ends it before its
/// next token; a window that the encoder reads is read to its end.
public actor EdgecTranscriber: OneCallAtATime {
    private let runtime: SpeechRuntime
    private let tokenizer: any Tokenizer
    let gate = CallGate()

    /// Find the bundle, check it, check the memory, load it; at the first start also replay its golden vectors.
    public static func load(_ options: LoadOptions = LoadOptions()) async throws -> EdgecTranscriber {
        let tell = options.progress ?? { _ in }
        tell(.finding)
        let folder = try await BundleLocation.find(options.bundle)
        let bundle = try BundleCheck.run(folder, isGiven: options.bundle != nil, always: options.hashAlways, tell)
        try MemoryCheck.run(bundle.neededBytes)
        tell(.loading)
        let tokenizer = try await AutoTokenizer.from(modelFolder: folder.appending(path: "tokenizer"))
        let runtime = try await SpeechRuntime(bundle)
        if !bundle.isDone("golden") {
            tell(.comparing)
            let golden = try GoldenSpeech(folder)
            try golden.checkTokens(tokenizer, accepted: options.acceptedTexts)
            try golden.checkOutputs(runtime)
            try bundle.finish("golden")
        }
        return EdgecTranscriber(runtime, tokenizer)
    }

    private init(_ runtime: SpeechRuntime, _ tokenizer: any Tokenizer) {
        self.runtime = runtime
        self.tokenizer = tokenizer
    }

    /// Write what is said in samples in -1..1 of one channel.
    ///
    /// - Parameters:
    ///   - sampleRate: of the samples; another one than `SpeechLimits.samplingRate` is `EdgecError.soundRefused`.
    ///   - show: called with each segment as soon as it is certain.
    public func transcribe(
        _ samples: [Float], sampleRate: Int, options: TranscriptionOptions = TranscriptionOptions(),
        show: @Sendable (SpeechSegment) -> Void = { _ in }
    ) async throws -> Transcript {
        try await write(.samples(samples, rate: sampleRate), options, show)
    }

    /// Write what is said in a WAV file at `SpeechLimits.samplingRate`; its channels are averaged.
    public func transcribe(
        file: URL, options: TranscriptionOptions = TranscriptionOptions(),
        show: @Sendable (SpeechSegment) -> Void = { _ in }
    ) async throws -> Transcript {
        try await write(.wav(file), options, show)
    }

    /// The segments of `transcribe`, each as soon as it is certain; leaving the loop over them ends the call.
    public nonisolated func segments(
        _ samples: [Float], sampleRate: Int, options: TranscriptionOptions = TranscriptionOptions()
    ) -> AsyncThrowingStream<SpeechSegment, any Error> {
        stream(.samples(samples, rate: sampleRate), options)
    }

    /// The segments of a WAV file, likewise.
    public nonisolated func segments(
        file: URL, options: TranscriptionOptions = TranscriptionOptions()
    ) -> AsyncThrowingStream<SpeechSegment, any Error> {
        stream(.wav(file), options)
    }

    private nonisolated func stream(
        _ sound: Sound, _ options: TranscriptionOptions
    ) -> AsyncThrowingStream<SpeechSegment, any Error> {
        AsyncThrowingStream { continuation in
            let task = Task {
                do {
                    _ = try await self.write(sound, options) { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// Transcribe a sound, in segments that `show` gets.
    private func write(
        _ sound: Sound, _ options: TranscriptionOptions, _ show: @Sendable (SpeechSegment) -> Void
    ) async throws -> Transcript {
        if let most = options.maxNewTokens, most < 1 { throw EdgecError.optionOutOfRange("maxNewTokens") }
        return try await exclusively {
            try runtime.begin(sound, options)
            let firstTimestamp = runtime.summary().firstTimestamp
            var segments: [SpeechSegment] = []
            while true {
                try Task.checkCancellation()
                let step = try runtime.step()
                if case .done = step { break }
                if case .segment(let start, let end, let tokens) = step {
                    let said = tokens.filter { $0 < firstTimestamp }
                    let text = tokenizer.decode(tokens: said, skipSpecialTokens: true)
                    segments.append(SpeechSegment(start: start, end: end, text: text, tokens: tokens))
                    show(segments[segments.count - 1])
                }
            }
            let summary = runtime.summary()
            let text = segments.map(\.text).joined().trimmingCharacters(in: .whitespacesAndNewlines)
            return Transcript(text: text, segments: segments, language: summary.language, timings: summary.timings)
        }
    }
}
