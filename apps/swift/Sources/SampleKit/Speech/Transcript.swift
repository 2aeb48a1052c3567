
/// What is written of speech: what was said, or its translation into English.
public enum SpeechTask: String, Sendable { case transcribe, translate }

/// What is asked of a transcription; the defaults are those of `edgec run --audio`.
public struct TranscriptionOptions: Sendable {
    /// That is spoken, such as "en"; nil: the model detects it in the first window.
    public var language: String?
    public var task: SpeechTask
    /// Cut the text by the model's own timestamps; nil: where it has them.
    public var timestamps: Bool?
    /// Of each window; nil: as many as the decoder's context takes.
    public var maxNewTokens: Int?

    public init(
        language: String? = nil, task: SpeechTask = .transcribe, timestamps: Bool? = nil, maxNewTokens: Int? = nil
    ) {
        self.language = language
        self.task = task
        self.timestamps = timestamps
        self.maxNewTokens = maxNewTokens
    }
}

/// A piece of what was said.
public struct SpeechSegment: Sendable, Equatable {
    /// Seconds from the sound's beginning.
    public let start: Double
    public let end: Double
    public let text: String
    /// With timestamps among them.
    public let tokens: [Int]
}

/// How long a transcription took, measured in this process.
public struct TranscriptTimings: Sendable, Equatable {
    /// The sound's length in seconds.
    public let sound: Double
    /// To make what the encoder reads.
    public let featuresMs: Double
    public let encodeMs: Double
    /// In the decoder, a token at a time.
    public let writeMs: Double
    /// Seconds of sound for each second of work.
    public var speed: Double { 1000 * sound / (featuresMs + encodeMs + writeMs) }
}

/// All that was said in a sound.
public struct Transcript: Sendable, Equatable {
    /// Of all segments.
    public let text: String
    public let segments: [SpeechSegment]
    /// Its token, such as "<|en|>"; nil where the model knows one language.
    public let language: String?
    public let timings: TranscriptTimings
}
