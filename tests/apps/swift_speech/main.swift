// Runs the generated package of a model that transcribes over the real engine, and prints what came of it: NAME=VALUE lines.
import Foundation
import KIT
import Tokenizers

func tell(_ name: String, _ heard: Transcript) {
    for each in heard.segments { print("\(name) segment=\(each.start) \(each.end) \(each.tokens) \(each.text)") }
    print("\(name) text=\(heard.text)")
    print("\(name) language=\(heard.language ?? "none")")
    let times = heard.timings
    print("\(name) timed=\(times.featuresMs > 0 && times.encodeMs > 0 && times.writeMs > 0 && times.speed > 0)")
    print("\(name) sound=\(times.sound)")
}

func refused(_ name: String, _ body: () async throws -> Transcript) async {
    do {
        print("\(name)=\(try await body().segments.count)")
    } catch {
        print("\(name)=\(error)")
    }
}

/// The segments that came, by a callback that other threads may call.
final class Seen: @unchecked Sendable {
    var segments: [SpeechSegment] = []
}

/// What is given segment by segment, and what is left where a call is cancelled in the middle.
func tellStreams(_ model: EdgecTranscriber, _ samples: [Float]) async throws {
    let rate = SpeechLimits.samplingRate
    let few = TranscriptionOptions(language: "en", maxNewTokens: 12)
    let seen = Seen()
    let whole = try await model.transcribe(samples, sampleRate: rate, options: few) { seen.segments.append($0) }
    print("seen=\(seen.segments == whole.segments)")
    var streamed: [SpeechSegment] = []
    for try await segment in model.segments(samples, sampleRate: rate, options: few) { streamed.append(segment) }
    print("stream=\(streamed == whole.segments)")
    for try await segment in model.segments(samples, sampleRate: rate, options: few) {
        print("left=\(segment == whole.segments[0])")
        break
    }
    let shown = Seen()
    let task = Task {
        try await model.transcribe(samples, sampleRate: rate, options: few) { segment in
            shown.segments.append(segment)
            withUnsafeCurrentTask { $0?.cancel() }
        }
    }
    let result = await task.result
    if case .failure(let error) = result { print("cancelled=\(error is CancellationError) \(shown.segments.count)") }
    print("after=\(try await model.transcribe(samples, sampleRate: rate, options: few).segments == whole.segments)")
}

func tellRefused(_ model: EdgecTranscriber, _ samples: [Float]) async {
    let rate = SpeechLimits.samplingRate
    await refused("empty") { try await model.transcribe([], sampleRate: rate) }
    await refused("rate") { try await model.transcribe(samples, sampleRate: 8000) }
    await refused("long") {
        try await model.transcribe([Float](repeating: 0, count: SpeechLimits.longestSeconds), sampleRate: 1)
    }
    await refused("odd") { try await model.transcribe([0, .nan], sampleRate: rate) }
    await refused("absent") { try await model.transcribe(file: URL(fileURLWithPath: "/absent.wav")) }
    await refused("language") {
        try await model.transcribe(samples, sampleRate: rate, options: TranscriptionOptions(language: "xx"))
    }
    await refused("most") {
        try await model.transcribe(samples, sampleRate: rate, options: TranscriptionOptions(maxNewTokens: 0))
    }
}

/// A recording that is there already.
@MainActor final class Played: SoundSource {
    struct Fault: LocalizedError { var errorDescription: String? { "no microphone" } }

    let file: URL
    var isFree = true
    private(set) var ends = 0

    init(_ file: URL) { self.file = file }
    func start() async throws { if !isFree { throw Fault() } }
    func end() -> URL {
        ends += 1
        return file
    }
}

/// The sample: what is recorded or chosen becomes text, and the model's memory comes back.
@MainActor func tellSample(_ sound: URL, _ accepted: Set<String>) async {
    let microphone = Played(sound)
    let writing = TranscribeModel(microphone, LoadOptions(acceptedTexts: accepted))
    func say(_ name: String, _ value: String) { print("sample \(name)=\(value)") }
    func settled() async { while writing.stage == .writing { await Task.yield() } }
    await writing.record()
    say("before", "\(writing.stage)")
    await writing.load()
    say("loaded", "\(writing.stage)")
    await writing.record()
    say("recording", "\(writing.stage)")
    writing.finish()
    await settled()
    say("heard", writing.segments.map(\.text).joined().trimmingCharacters(in: .whitespacesAndNewlines))
    say("note", writing.note ?? "none")
    writing.transcribe(URL(fileURLWithPath: "/absent.wav"))
    await settled()
    say("absent", writing.note ?? "none")
    await writing.record()
    writing.enteredBackground()
    say("stopped", "\(writing.stage) \(writing.note ?? "none") \(microphone.ends)")
    microphone.isFree = false
    await writing.record()
    say("refused", "\(writing.stage) \(writing.note ?? "none")")
    writing.thermalStateIs(.critical)
    await writing.record()
    say("hot", writing.note ?? "none")
    writing.thermalStateIs(.nominal)
    writing.transcribe(sound)
    writing.unload()
    await settled()
    say("unloaded", "\(writing.stage) \(writing.note ?? "none")")
}

let words = CommandLine.arguments
AutoTokenizer.loaded = NumberTokenizer()
let accepted = Set(words[3].split(separator: ",").map(String.init))
let sound = URL(fileURLWithPath: words[1])
let samples = try Data(contentsOf: URL(fileURLWithPath: words[2])).withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
let rate = SpeechLimits.samplingRate
do {
    _ = try await EdgecTranscriber.load()
    print("unaccepted=loaded")
} catch {
    print("unaccepted=\(error)")
}
let model = try await EdgecTranscriber.load(LoadOptions(acceptedTexts: accepted))
print("limits=\(rate) \(SpeechLimits.windowSamples) \(SpeechLimits.hasTimestamps)")
tell("plain", try await model.transcribe(samples, sampleRate: rate))
tell("file", try await model.transcribe(file: sound, options: TranscriptionOptions(maxNewTokens: 20)))
let asked = TranscriptionOptions(language: "DE", task: .translate, timestamps: false, maxNewTokens: 12)
tell("asked", try await model.transcribe(file: sound, options: asked))
try await tellStreams(model, samples)
await tellRefused(model, samples)
await tellSample(sound, accepted)
