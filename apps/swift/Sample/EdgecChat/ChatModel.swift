import Foundation
import Observation
import SampleKit

/// A conversation with the model, and when the model is in memory. It knows nothing of screens, so that it can be tested.
@MainActor @Observable
final class ChatModel: SystemListener {
    enum Stage: Equatable {
        case unloaded
        case loading(LoadStep)
        case ready
        case answering
        case failed(String)
    }

    /// One message as the screen shows it; the note of an answer is its timings, or why it ended early.
    struct Line: Identifiable, Equatable {
        let id: Int
        let role: ChatMessage.Role
        var text: String
        var note: String?
    }

    private(set) var stage = Stage.unloaded
    private(set) var lines: [Line] = []
    /// What the system asks for: less memory, less heat.
    private(set) var notice: String?
    private(set) var isHot = false
    /// The pictures that the next message shows.
    private(set) var chosen = Pictures()
    @ObservationIgnored private var pictures: [Int: Pictures] = [:]
    @ObservationIgnored private var model: EdgecModel?
    @ObservationIgnored private var work: Task<Void, Never>?
    @ObservationIgnored private var unloadSoon = false
    private let options: LoadOptions
    private let generation: GenerationOptions

    init(_ options: LoadOptions = LoadOptions(), generation: GenerationOptions = GenerationOptions()) {
        self.options = options
        self.generation = generation
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
            return try await EdgecModel.load(given)
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

    /// Answer a message; the answer grows in the last line.
    func send(_ text: String) {
        guard stage == .ready, let model, !text.isEmpty else { return }
        if isHot {
            notice = "The device is too hot. Wait until it has cooled down."
            return
        }
        notice = nil
        add(.user, text)
        let asked = chosen
        pictures[lines.count - 1] = asked
        lines[lines.count - 1].note = asked.note
        chosen = Pictures()
        let messages = lines.map { (pictures[$0.id] ?? Pictures()).message($0.role, $0.text) }
        add(.assistant, "")
        stage = .answering
        work = Task { await answer(model, messages, text, asked) }
    }

    /// Pictures that the next message shows.
    func attach(_ pictures: Pictures) {
        if stage == .ready { chosen = pictures }
    }

    /// What was chosen cannot be read.
    func cannotAttach(_ error: any Error) { notice = "The picture cannot be read: \(error.localizedDescription)" }

    /// End the answer that is being made; what has come of it stays.
    func stop() { work?.cancel() }

    /// Stop, and give the model's memory back; the conversation stays.
    func unload() {
        switch stage {
        case .loading: unloadSoon = true
        case .answering:
            unloadSoon = true
            stop()
        default: drop()
        }
    }

    /// Start a new conversation.
    func clear() {
        if stage == .answering { return }
        lines = []
        pictures = [:]
        notice = nil
    }

    /// The system is about to end apps for want of memory, of which the model has most.
    func memoryIsLow() {
        if stage == .unloaded { return }
        unload()
        notice = "The system is short of memory: the model was unloaded."
    }

    /// In the background an app may not compute for long; the model stays, and goes if memory gets low.
    func enteredBackground() { if stage == .answering { stop() } }

    /// A hot device is slow, and a critical one may be shut down: then the answer ends.
    func thermalStateIs(_ state: ProcessInfo.ThermalState) {
        isHot = state == .critical
        if isHot { stop() }
        switch state {
        case .critical: notice = "The device is too hot. Wait until it has cooled down."
        case .serious: notice = "The device is hot: answers come slower."
        default: notice = nil
        }
    }

    private func answer(_ model: EdgecModel, _ messages: [ChatMessage], _ text: String, _ asked: Pictures) async {
        let last = lines.count - 1
        do {
            let pieces =
                ModelFacts.hasChatTemplate
                ? model.generate(messages: messages, options: generation)
                : asked.ask(model, text, generation)
            for try await piece in pieces { lines[last].text += piece }
            lines[last].note = Task.isCancelled ? "stopped" : Self.words(await model.lastTimings)
        } catch {
            lines[last].note = Self.words(error)
        }
        stage = .ready
        work = nil
        if unloadSoon { drop() }
    }

    private func add(_ role: ChatMessage.Role, _ text: String) {
        lines.append(Line(id: lines.count, role: role, text: text))
    }

    private func drop() {
        model = nil
        unloadSoon = false
        stage = .unloaded
    }

    /// For example "TTFT 180 ms, 24.5 tokens/s (measured)".
    private static func words(_ timings: AnswerTimings?) -> String? {
        guard let timings else { return nil }
        let first = String(format: "TTFT %.0f ms", timings.firstTokenMs)
        let speed = timings.tokensPerSecond.map { String(format: ", %.1f tokens/s", $0) } ?? ""
        return "\(first)\(speed) (measured)"
    }

    private static func words(_ error: any Error) -> String {
        let advice = (error as? any LocalizedError)?.recoverySuggestion.map { " \($0)" } ?? ""
        return error.localizedDescription + advice
    }
}
