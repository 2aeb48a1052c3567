import ExecuTorch
import Foundation
import FoundationModels
import KIT
import Tokenizers

/// What a request's answer sent, or the error that ended it.
struct SoundInput: Encodable {
    var text = ""
    var thoughts = ""
    var entries: Set<String> = []
    /// The name, the arguments and the id of each call.
    var calls: [[String]] = []
    var usage: [Int]?
    var error: String?
}

actor Listener {
    var heard = SoundInput()
    func hear(_ event: LanguageModelExecutorGenerationChannel.Event) {
        heard.entries.insert(event.entryID ?? "")
        if case .appendText(let text, _) = event.thought { heard.thoughts += text }
        if case .toolCall(let id, let name, .appendArguments(let json, _)) = event.call { heard.calls.append([name, json, id]) }
        switch event.action {
        case nil: break
        case .appendText(let text, _): heard.text += text
        case .updateUsage(let input, let output):
            heard.usage = [input.totalTokenCount, input.cachedTokenCount, output.totalTokenCount, output.reasoningTokenCount]
        }
    }
}

/// Sends transcripts to the kit's model as a session would, and writes what came back.
@main struct Main {
    static func main() async throws {
        let call = "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>"
        let coat = "[tools]<system>Be brief.\n<user>Coat?\n<assistant>"
        func tokens(_ text: String) -> [Int] { Array(text.utf8).map { Int($0) } }
        // A prompt may begin with another one; the longer one is meant. A template writes its own first tokens.
        let said = [
            (tokens(coat + call + "\n<tool>Rain\n<assistant>"), "It rains."), (tokens(coat), call),
            (tokens("<system>Be brief.\n<user>Think\n<assistant>"), "<t>Hm, so.</t>Yes."),
        ]
        let scripted = ScriptedModel(said.map { Script(prompt: $0.0, answer: tokens($0.1) + [2]) })
        Module.answers.names = ["forward_rows", "forward"]
        Module.answers.metadata = { name in
            let shapes = [[1, 64], [64], [1]].enumerated().map { ($0, TensorMetadata(shape: $1, dataType: .long)) }
            return MethodMetadata(name: name, inputs: Dictionary(uniqueKeysWithValues: shapes))
        }
        Module.answers.execute = { try scripted.execute($0, $1) }
        AutoTokenizer.loaded = ByteTokenizer()
        let folder = URL(fileURLWithPath: FileManager.default.currentDirectoryPath).appending(path: "bundle")
        let loaded = try await EdgecModel.load(LoadOptions(bundle: folder))
        let model = FoundationModel(loaded, options: KIT.GenerationOptions(maxNewTokens: 12, repetitionPenalty: 1))
        var heard: [String: SoundInput] = [:]
        let first = [system("Be kind."), prompt("Hi")]
        heard["first"] = try await ask(model, first)
        let answer = Transcript.Entry.response(.init([.text(.init(content: heard["first"]!.text))]))
        let thought = Transcript.Entry.reasoning(.init([.text(.init(content: "Hm"))]))
        heard["second"] = try await ask(model, first + [thought, answer, prompt("So", "And")])
        let patient = FoundationModel(loaded, options: KIT.GenerationOptions(maxNewTokens: 40, repetitionPenalty: 1))
        heard["thinking"] = try await ask(patient, [prompt("Think")])
        heard["short"] = try await ask(model, [prompt("Hi")], .init(maximumResponseTokens: 3))
        let drawn = FoundationModels.GenerationOptions(samplingMode: .random(top: 5, seed: 7), temperature: 2)
        heard["drawn"] = try await ask(model, [prompt("Hi")], drawn)
        heard["drawn again"] = try await ask(model, [prompt("Hi")], drawn)
        heard["structure"] = try await ask(
            model, [.prompt(.init([.structure(.init(content: GeneratedContent(json: #"{"a": 1}"#)))]))])
        heard["long"] = try await ask(model, [prompt(String(repeating: "long ", count: 60))])
        heard["image"] = try await ask(model, [.prompt(.init([.attachment(.init())]))])
        let tools = ["weather", "now"].map { Transcript.ToolDefinition(name: $0, description: "") }
        let other = Transcript.ToolDefinition(name: "other", description: "")
        let talker = FoundationModel(loaded, options: KIT.GenerationOptions(maxNewTokens: 120, repetitionPenalty: 1))
        let called = try await ask(talker, [prompt("Coat?")], tools: tools)
        heard["called"] = called
        let calls = called.calls.map {
            Transcript.ToolCall(id: $0[2], toolName: $0[0], arguments: GeneratedContent(json: $0[1]))
        }
        let before: [Transcript.Entry] = [
            prompt("Coat?"), .response(.init([.text(.init(content: called.text))])), .toolCalls(.init(calls)),
        ]
        let output = Transcript.ToolOutput(id: "x", toolName: "weather", segments: [.text(.init(content: "Rain"))])
        heard["result"] = try await ask(talker, before + [.toolOutput(output)], tools: tools)
        let unknown = Transcript.ToolCall(id: "y", toolName: "weather", arguments: GeneratedContent(json: "{}"))
        heard["restored calls"] = try await ask(talker, [prompt("Coat?"), .toolCalls(.init([unknown]))], tools: tools)
        heard["disallowed"] = try await ask(
            talker, [prompt("Think")], .init(toolCallingMode: .disallowed), tools: tools)
        heard["required"] = try await ask(talker, [prompt("Coat?")], .init(toolCallingMode: .required), tools: tools)
        heard["other tool"] = try await ask(talker, [prompt("Coat?")], tools: tools + [other])
        heard["one tool"] = try await ask(talker, [prompt("Coat?")], tools: [tools[0]])
        heard["tools and schema"] = try await ask(talker, [prompt("Coat?")], tools: tools, schema: GenerationSchema())
        let same = model.executorConfiguration == FoundationModel(loaded).executorConfiguration
        let known = [LanguageModelCapabilities.Capability.guidedGeneration, .reasoning, .toolCalling]
        let has = known.map { "\(model.capabilities.contains($0))" }.joined(separator: " ")
        heard["configuration"] = SoundInput(text: "\(same) \(has)")
        try JSONEncoder().encode(heard).write(to: URL(fileURLWithPath: "heard.json"))
    }

    static func system(_ text: String) -> Transcript.Entry { .instructions(.init([.text(.init(content: text))])) }

    static func prompt(_ texts: String...) -> Transcript.Entry {
        .prompt(.init(texts.map { .text(.init(content: $0)) }))
    }

    static func ask(
        _ model: FoundationModel, _ entries: [Transcript.Entry], _ options: FoundationModels.GenerationOptions = .init(),
        tools: [Transcript.ToolDefinition] = [], schema: GenerationSchema? = nil
    ) async throws -> SoundInput {
        let listener = Listener()
        let request = LanguageModelExecutorGenerationRequest(
            transcript: Transcript(entries: entries), enabledTools: tools, schema: schema, generationOptions: options)
        let executor = FoundationExecutor(configuration: model.executorConfiguration)
        executor.prewarm(model: model, transcript: request.transcript)
        do {
            try await executor.respond(to: request, model: model, streamingInto: .init { await listener.hear($0) })
        } catch {
            var heard = await listener.heard
            switch error as? LanguageModelError {
            case .contextSizeExceeded(let fault): heard.error = "context \(fault.contextSize) \(fault.tokenCount)"
            case .unsupportedTranscriptContent(let fault): heard.error = fault.debugDescription
            case .unsupportedCapability(let fault): heard.error = fault.debugDescription
            case nil: heard.error = "other: \(error)"
            }
            return heard
        }
        return await listener.heard
    }
}
