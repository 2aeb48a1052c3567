import Foundation
import Observation
import SampleKit

/// Where sound comes from: the microphone, or a test.
@MainActor
protocol SoundSource: AnyObject {
    /// Ask for the microphone, and record into a file.
    func start() async throws
    /// End the recording; the WAV file with what was said.
    func end() -> URL
}

/// What is said, in writing, and when the model is in memory. It knows nothing of screens, so that it can be tested.
@MainActor @Observable
final class TranscribeModel: SystemListener {
    enum Stage: Equatable {
        case unloaded
        case loading(LoadStep)
        case ready
        case recording
        case writing
        case failed(String)
    }

    private(set) var stage = Stage.unloaded
    private(set) var segments: [SpeechSegment] = []
    /// How fast the text was written, what went wrong, or what the system asks for.
    private(set) var note: String?
    private(set) var isHot = false
    @ObservationIgnored private var model: EdgecTranscriber?
    @ObservationIgnored private var work: Task<Void, Never>?
    @ObservationIgnored private var unloadSoon = false
    private let microphone: any SoundSource
    private let options: LoadOptions
    private let transcription: TranscriptionOptions

    init(
        _ microphone: any SoundSource, _ options: LoadOptions = LoadOptions(),
        transcription: TranscriptionOptions = TranscriptionOptions()
    ) {
        self.microphone = microphone
        self.options = options
        self.transcription = transcription
    }

    /// Load the model, step by step on the screen; nothing where it is loaded already.
    func load() async {
        switch stage {
        case .unloaded, .failed: break
        default: return
        }
        stage = .loading(.finding)
        unloadSoon = false
        let (steps, feed) = AsyncStream.makeStream(of: LoadStep.self)
        var given = options
        given.progress = { feed.yield($0) }
        let loading = Task.detached { [given] in
            defer { feed.finish() }
            return try await EdgecTranscriber.load(given)
        }
        for await step in steps { stage = .loading(step) }
        do {
            model = try await loading.value
            stage = .ready
        } catch {
            stage = .failed(Self.words(error))
        }
        if unloadSoon { drop() }
    }

    /// Record until `finish`.
    func record() async {
        guard canBegin() else { return }
        begin(.recording)
        do {
            try await microphone.start()
        } catch {
            note = Self.words(error)
            settle()
        }
        // The system may have ended it while it asked.
        if stage != .recording { _ = microphone.end() }
    }

    /// End the recording, and write what was said.
    func finish() {
        if stage == .recording { write(microphone.end()) }
    }

    /// Write what is said in a WAV file.
    func transcribe(_ file: URL) {
        if canBegin() { write(file) }
    }

    /// The chosen file cannot be read.
    func cannotRead(_ error: any Error) { note = Self.words(error) }

    /// End what is being recorded or written; what has come of it stays.
    func stop() {
        if stage == .recording {
            _ = microphone.end()
            note = "stopped"
            settle()
        }
        work?.cancel()
    }

    /// Stop, and give the model's memory back; the text stays.
    func unload() {
        switch stage {
        case .loading: unloadSoon = true
        case .recording, .writing:
            unloadSoon = true
            stop()
        default: drop()
        }
    }

    /// The system is about to end apps for want of memory, of which the model has most.
    func memoryIsLow() {
        if stage == .unloaded { return }
        unload()
        note = "The system is short of memory: the model was unloaded."
    }

    /// In the background an app may neither record nor compute for long; the model stays, and goes if memory gets low.
    func enteredBackground() { stop() }

    /// A hot device is slow, and a critical one may be shut down: then the work ends.
    func thermalStateIs(_ state: ProcessInfo.ThermalState) {
        isHot = state == .critical
        if isHot { stop() }
        switch state {
        case .critical: note = Self.tooHot
        case .serious: note = "The device is hot: writing takes longer."
        default: note = nil
        }
    }

    private func canBegin() -> Bool {
        if stage != .ready || model == nil { return false }
        if isHot { note = Self.tooHot }
        return !isHot
    }

    private func begin(_ next: Stage) {
        stage = next
        segments = []
        note = nil
    }

    private func write(_ file: URL) {
        guard let model else { return }
        begin(.writing)
        work = Task { await finish(model, file) }
    }

    private func finish(_ model: EdgecTranscriber, _ file: URL) async {
        let (parts, feed) = AsyncStream.makeStream(of: SpeechSegment.self)
        let writing = Task.detached { [transcription] in
            defer { feed.finish() }
            return try await model.transcribe(file: file, options: transcription) { feed.yield($0) }
        }
        await withTaskCancellationHandler {
            for await part in parts { segments.append(part) }
        } onCancel: {
            writing.cancel()
        }
        let result = await writing.result
        switch result {
        case .success(let heard): note = Self.words(heard.timings)
        case .failure(let error): note = error is CancellationError ? "stopped" : Self.words(error)
        }
        work = nil
        settle()
    }

    private func settle() {
        stage = .ready
        if unloadSoon { drop() }
    }

    private func drop() {
        model = nil
        unloadSoon = false
        stage = .unloaded
    }

    private static let tooHot = "The device is too hot. Wait until it has cooled down."

    /// For example "12.0 s of sound, 8.5 s of it a second (measured)".
    private static func words(_ timings: TranscriptTimings) -> String {
        String(format: "%.1f s of sound, %.1f s of it a second (measured)", timings.sound, timings.speed)
    }

    private static func words(_ error: any Error) -> String {
        let advice = (error as? any LocalizedError)?.recoverySuggestion.map { " \($0)" } ?? ""
        return error.localizedDescription + advice
    }
}
