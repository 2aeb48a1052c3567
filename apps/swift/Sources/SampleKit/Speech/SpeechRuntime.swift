import SampleKitEngine
import Foundation

/// A sound that is transcribed.
enum Sound: Sendable {
    case samples([Float], rate: Int)
    case wav(URL)
}

/// What a step did.
enum SpeechStep {
    case worked, done
    /// A segment is certain; timestamps are among its tokens.
    case segment(start: Double, end: Double, tokens: [Int])
}

/// What the engine knows of a sound so far.
struct SpeechSummary {
    let language: String?
    /// Tokens from this id on are timestamps, which are not text.
    let firstTimestamp: Int
    let timings: TranscriptTimings
}

/// The bundle in edgec's C++, which makes features of sounds and chooses tokens; closed with this object.
final class SpeechRuntime {
    private let opened: OpenedSpeech
    private var audioHandle: OpaquePointer { opened.audioHandle }

    init(_ bundle: CheckedBundle) async throws { opened = try await OpenedSpeech(bundle) }

    /// Begin a sound; one that was begun before ends.
    func begin(_ sound: Sound, _ options: TranscriptionOptions) throws {
        try Self.withOptions(options) { asked in
            switch sound {
            case .samples(let values, let rate):
                try values.withUnsafeBufferPointer { buffer in
                    try checked {
                        SampleKit_audio_begin(
                            audioHandle, buffer.baseAddress, Int64(buffer.count), Int64(rate), asked, $0, $1)
                    }
                }
            case .wav(let file):
                try checked { SampleKit_audio_begin_file(audioHandle, file.path, asked, $0, $1) }
            }
        }
    }

    /// Read a window of the sound, or write a token.
    func step() throws -> SpeechStep {
        var progress: Int32 = 0
        var segment = EdgecSegment()
        try checked { SampleKit_audio_step(audioHandle, &progress, &segment, $0, $1) }
        switch progress {
        case Int32(EDGEC_AUDIO_SEGMENT.rawValue):
            let tokens = UnsafeBufferPointer(start: segment.tokens, count: segment.token_count).map { Int($0) }
            return .segment(start: segment.start_s, end: segment.end_s, tokens: tokens)
        case Int32(EDGEC_AUDIO_DONE.rawValue): return .done
        default: return .worked
        }
    }

    func summary() -> SpeechSummary {
        var all = EdgecAudioSummary()
        SampleKit_audio_summary(audioHandle, &all)
        let language = String(cString: all.language)
        let timings = TranscriptTimings(
            sound: all.sound_s, featuresMs: all.features_ms, encodeMs: all.encode_ms, writeMs: all.write_ms)
        return SpeechSummary(
            language: language.isEmpty ? nil : language,
            firstTimestamp: all.first_timestamp < 0 ? Int.max : Int(all.first_timestamp), timings: timings)
    }

    /// Read what the encoder reads, for golden vectors.
    func read(_ source: [Float]) throws {
        try checked { SampleKit_audio_read(audioHandle, source, source.count, $0, $1) }
    }

    /// Feed tokens at the positions from `start` on; the logits after the last one.
    func feed(_ tokens: [Int], at start: Int) throws -> [Float] {
        let fed = tokens.map { Int64($0) }
        var logits: UnsafePointer<Float>?
        var vocabulary = 0
        try checked {
            SampleKit_audio_feed(audioHandle, fed, fed.count, Int64(start), &logits, &vocabulary, $0, $1)
        }
        return Array(UnsafeBufferPointer(start: logits, count: vocabulary))
    }

    private static func withOptions(
        _ options: TranscriptionOptions, _ body: (UnsafePointer<EdgecAudioOptions>) throws -> Void
    ) throws {
        try withText(options.language) { language in
            try options.task.rawValue.withCString { task in
                var asked = EdgecAudioOptions()
                asked.language = language
                asked.task = task
                asked.timestamps = options.timestamps.map { $0 ? 2 : 1 } ?? 0
                asked.most_tokens = Int64(options.maxNewTokens ?? 0)
                try withUnsafePointer(to: asked) { try body($0) }
            }
        }
    }

    private static func withText(_ text: String?, _ body: (UnsafePointer<CChar>?) throws -> Void) throws {
        guard let text else { return try body(nil) }
        try text.withCString { try body($0) }
    }

    /// A call that fills a text where it fails; a sound that is refused is an error of its own.
    private func checked(_ call: (UnsafeMutablePointer<CChar>, Int) -> Int32) throws {
        let (status, why) = EngineCall.told(call)
        if status == 0 { return }
        if let failure = opened.takeFailure() { throw failure }
        switch EdgecAudioStatus(rawValue: .init(truncatingIfNeeded: status)) {
        case EDGEC_SOUND_UNREADABLE: throw EdgecError.soundRefused(.unreadable, why: why)
        case EDGEC_SOUND_EMPTY: throw EdgecError.soundRefused(.empty, why: why)
        case EDGEC_SOUND_TOO_LONG: throw EdgecError.soundRefused(.tooLong, why: why)
        case EDGEC_SOUND_RATE: throw EdgecError.soundRefused(.rateDiffers, why: why)
        case EDGEC_SOUND_NOT_FINITE: throw EdgecError.soundRefused(.notFinite, why: why)
        case EDGEC_LANGUAGE_UNKNOWN: throw EdgecError.languageUnknown(why)
        case EDGEC_AUDIO_OPTION: throw EdgecError.transcriptionRefused(why)
        default: throw EdgecError.engineFailed(why)
        }
    }
}
