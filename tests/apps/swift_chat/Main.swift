import ExecuTorch
import Foundation
import KIT
import Tokenizers

struct Cases: Decodable { let scripts: [Script] }

/// What the conversation looked like at one point.
struct Seen: Encodable {
    let stage: String
    let lines: [[String?]]
    let notice: String?
}

/// All steps of one load, which come from any thread.
final class Steps: @unchecked Sendable {
    private let lock = NSLock()
    private var steps: [String] = []
    func add(_ step: LoadStep) { lock.withLock { steps.append("\(step)") } }
    var all: [String] { lock.withLock { steps } }
}

/// Leads a conversation with the sample's model through what may happen, and writes what was seen after each event.
@MainActor @main struct Main {
    static let scripted = ScriptedModel([])

    static func main() async throws {
        Module.answers.names = ["forward_rows", "forward"]
        Module.answers.metadata = { name in
            let shapes = [[1, 64], [64], [1]].enumerated().map { ($0, TensorMetadata(shape: $1, dataType: .long)) }
            return MethodMetadata(name: name, inputs: Dictionary(uniqueKeysWithValues: shapes))
        }
        Module.answers.execute = { try scripted.execute($0, $1) }
        AutoTokenizer.loaded = ByteTokenizer()
        var seen: [String: Seen] = [:]
        let steps = Steps()
        for name in ["first", "later"] {
            _ = try await EdgecModel.load(LoadOptions(bundle: folder("bundle")) { steps.add($0) })
            seen["steps \(name)"] = Seen(stage: "", lines: [steps.all], notice: nil)
        }
        let chat = ChatModel(LoadOptions(bundle: folder("bundle")), generation: options)
        chat.send("too early")
        seen["before"] = look(chat)
        await chat.load()
        seen["loaded"] = look(chat)
        await converse(chat, &seen)
        let broken = ChatModel(LoadOptions(bundle: folder("nowhere")))
        await broken.load()
        seen["failed"] = look(broken)
        try JSONEncoder().encode(seen).write(to: URL(fileURLWithPath: "seen.json"))
    }

    static func converse(_ chat: ChatModel, _ seen: inout [String: Seen]) async {
        seen["answered"] = await say("Hi", chat)
        seen["second"] = await say("So", chat)
        // The context is short.
        chat.clear()
        seen["memory"] = await say("More", chat) { chat.memoryIsLow() }
        let loading = Task { await chat.load() }
        while chat.stage == .unloaded { await Task.yield() }
        chat.unload()
        await loading.value
        seen["unloaded while loading"] = look(chat)
        await chat.load()
        chat.clear()
        seen["background"] = await say("Away", chat) { chat.enteredBackground() }
        chat.clear()
        seen["hot"] = await say("Sun", chat) { chat.thermalStateIs(.critical) }
        chat.send("again")
        seen["too hot"] = look(chat)
        chat.thermalStateIs(.serious)
        seen["warm"] = look(chat)
        chat.thermalStateIs(.nominal)
        chat.clear()
        seen["cleared"] = look(chat)
        seen["cool"] = await say("Hi", chat)
        chat.unload()
        seen["unloaded"] = look(chat)
    }

    /// Send a message and wait for the answer's end; `event` happens once some of it has come.
    static func say(_ text: String, _ chat: ChatModel, event: (() -> Void)? = nil) async -> Seen {
        scripted.secondsPerCall = event == nil ? 0 : 0.02
        chat.send(text)
        if let event {
            while chat.stage == .answering, chat.lines.last?.text.isEmpty == true { await Task.yield() }
            event()
        }
        while chat.stage == .answering { await Task.yield() }
        return look(chat)
    }

    static var options: GenerationOptions { GenerationOptions(maxNewTokens: 12, repetitionPenalty: 1) }

    static func folder(_ name: String) -> URL {
        URL(fileURLWithPath: FileManager.default.currentDirectoryPath).appending(path: name)
    }

    static func look(_ chat: ChatModel) -> Seen {
        Seen(stage: "\(chat.stage)", lines: chat.lines.map { [$0.role.rawValue, $0.text, $0.note] }, notice: chat.notice)
    }
}
