// Stand-in: the part of Foundation Models (iOS 27) by which packages bring models of their own. Names and signatures are
// those of Apple's documentation and of public packages for it; a session here is what a test calls itself.
import Foundation

public struct LanguageModelCapabilities: Sendable {
    public struct Capability: Sendable, Hashable {
        let name: String
        public static let guidedGeneration = Capability(name: "guidedGeneration")
        public static let reasoning = Capability(name: "reasoning")
        public static let toolCalling = Capability(name: "toolCalling")
        public static let vision = Capability(name: "vision")
    }
    let all: Set<Capability>
    public init(_ capabilities: [Capability]) { all = Set(capabilities) }
    public func contains(_ capability: Capability) -> Bool { all.contains(capability) }
}
public protocol LanguageModel: Sendable {
    associatedtype Executor: LanguageModelExecutor where Self == Executor.Model
    var capabilities: LanguageModelCapabilities { get }
    var executorConfiguration: Executor.Configuration { get }
}
public protocol LanguageModelExecutor: Sendable {
    associatedtype Configuration: Hashable, Sendable
    associatedtype Model: LanguageModel
    init(configuration: Configuration) throws
    func prewarm(model: Model, transcript: Transcript)
    func respond(
        to request: LanguageModelExecutorGenerationRequest, model: Model,
        streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws
}
extension LanguageModelExecutor {
    public func prewarm(model: Model, transcript: Transcript) {}
}
public struct GeneratedContent: Sendable, Equatable {
    public let jsonString: String
    public init(json: String) { jsonString = json }
}
public struct GenerationSchema: Sendable {
    public init() {}
}
public struct Transcript: Sendable, RandomAccessCollection {
    public struct TextSegment: Sendable {
        public let content: String
        public init(content: String) { self.content = content }
    }
    public struct StructuredSegment: Sendable {
        public let content: GeneratedContent
        public init(content: GeneratedContent) { self.content = content }
    }
    public struct AttachmentSegment: Sendable { public init() {} }
    public enum Segment: Sendable {
        case text(TextSegment), structure(StructuredSegment), attachment(AttachmentSegment)
    }
    public struct Instructions: Sendable { public let segments: [Segment] }
    public struct Prompt: Sendable { public let segments: [Segment] }
    public struct Response: Sendable { public let segments: [Segment] }
    public struct Reasoning: Sendable { public let segments: [Segment] }
    public struct ToolDefinition: Sendable {
        public let name, description: String
        public init(name: String, description: String) {
            self.name = name
            self.description = description
        }
    }
    public struct ToolCall: Sendable {
        public let id, toolName: String
        public let arguments: GeneratedContent
        public init(id: String, toolName: String, arguments: GeneratedContent) {
            self.id = id
            self.toolName = toolName
            self.arguments = arguments
        }
    }
    public struct ToolCalls: Sendable, RandomAccessCollection {
        let calls: [ToolCall]
        public init(_ calls: [ToolCall]) { self.calls = calls }
        public var startIndex: Int { calls.startIndex }
        public var endIndex: Int { calls.endIndex }
        public subscript(position: Int) -> ToolCall { calls[position] }
    }
    public struct ToolOutput: Sendable {
        public let id, toolName: String
        public let segments: [Segment]
        public init(id: String, toolName: String, segments: [Segment]) {
            self.id = id
            self.toolName = toolName
            self.segments = segments
        }
    }
    public enum Entry: Sendable {
        case instructions(Instructions), prompt(Prompt), toolCalls(ToolCalls), toolOutput(ToolOutput)
        case response(Response), reasoning(Reasoning)
    }
    let entries: [Entry]
    public init(entries: [Entry]) { self.entries = entries }
    public var startIndex: Int { entries.startIndex }
    public var endIndex: Int { entries.endIndex }
    public subscript(position: Int) -> Entry { entries[position] }
}
extension Transcript.Instructions { public init(_ segments: [Transcript.Segment]) { self.segments = segments } }
extension Transcript.Prompt { public init(_ segments: [Transcript.Segment]) { self.segments = segments } }
extension Transcript.Response { public init(_ segments: [Transcript.Segment]) { self.segments = segments } }
extension Transcript.Reasoning { public init(_ segments: [Transcript.Segment]) { self.segments = segments } }
public struct GenerationOptions: Sendable {
    public struct SamplingMode: Sendable {
        public enum Kind: Sendable {
            case greedy, randomTopK(Int, seed: UInt64?), randomProbabilityThreshold(Double, seed: UInt64?), later
        }
        public let kind: Kind
        public static let greedy = SamplingMode(kind: .greedy)
        public static func random(top k: Int, seed: UInt64? = nil) -> SamplingMode {
            SamplingMode(kind: .randomTopK(k, seed: seed))
        }
        public static func random(probabilityThreshold p: Double, seed: UInt64? = nil) -> SamplingMode {
            SamplingMode(kind: .randomProbabilityThreshold(p, seed: seed))
        }
    }
    public struct ToolCallingMode: Sendable {
        public enum Kind: Sendable { case allowed, required, disallowed }
        public let kind: Kind
        public static let allowed = ToolCallingMode(kind: .allowed)
        public static let required = ToolCallingMode(kind: .required)
        public static let disallowed = ToolCallingMode(kind: .disallowed)
    }
    public var samplingMode: SamplingMode?
    public var temperature: Double?
    public var maximumResponseTokens: Int?
    public var toolCallingMode: ToolCallingMode?
    public init(
        samplingMode: SamplingMode? = nil, temperature: Double? = nil, maximumResponseTokens: Int? = nil,
        toolCallingMode: ToolCallingMode? = nil
    ) {
        self.toolCallingMode = toolCallingMode
        self.samplingMode = samplingMode
        self.temperature = temperature
        self.maximumResponseTokens = maximumResponseTokens
    }
}
public struct LanguageModelExecutorGenerationRequest: Sendable {
    public var transcript: Transcript
    public var enabledToolDefinitions: [Transcript.ToolDefinition]
    public var schema: GenerationSchema?
    public var generationOptions: GenerationOptions
    public init(
        transcript: Transcript, enabledTools: [Transcript.ToolDefinition] = [], schema: GenerationSchema? = nil,
        generationOptions: GenerationOptions
    ) {
        self.transcript = transcript
        enabledToolDefinitions = enabledTools
        self.schema = schema
        self.generationOptions = generationOptions
    }
}
public struct LanguageModelExecutorGenerationChannel: Sendable {
    public struct TextFragment: Sendable {}
    public enum Usage {
        public struct Input: Sendable {
            public let totalTokenCount, cachedTokenCount: Int
            public init(totalTokenCount: Int, cachedTokenCount: Int) {
                self.totalTokenCount = totalTokenCount
                self.cachedTokenCount = cachedTokenCount
            }
        }
        public struct Output: Sendable {
            public let totalTokenCount, reasoningTokenCount: Int
            public init(totalTokenCount: Int, reasoningTokenCount: Int) {
                self.totalTokenCount = totalTokenCount
                self.reasoningTokenCount = reasoningTokenCount
            }
        }
    }
    public struct ToolCalls: Sendable {
        public enum Action: Sendable { case toolCall(id: String, name: String, action: ToolCall.Action) }
    }
    public struct ToolCall: Sendable {
        public enum Action: Sendable { case appendArguments(String, tokenCount: Int) }
    }
    public struct Event: Sendable {
        public enum Response: Sendable {
            case appendText(String, tokenCount: Int)
            case updateUsage(input: Usage.Input, output: Usage.Output)
        }
        public enum Reasoning: Sendable { case appendText(String, tokenCount: Int) }
        public let entryID: String?
        public let action: Response?
        public let thought: Reasoning?
        public let call: ToolCalls.Action?
        public static func response(entryID: String? = nil, action: Response) -> Event {
            Event(entryID: entryID, action: action, thought: nil, call: nil)
        }
        public static func reasoning(entryID: String? = nil, action: Reasoning) -> Event {
            Event(entryID: entryID, action: nil, thought: action, call: nil)
        }
        public static func toolCalls(entryID: String? = nil, action: ToolCalls.Action) -> Event {
            Event(entryID: entryID, action: nil, thought: nil, call: action)
        }
    }
    let heard: @Sendable (Event) async -> Void
    public init(heard: @escaping @Sendable (Event) async -> Void) { self.heard = heard }
    public func send(_ event: Event) async { await heard(event) }
}
public enum LanguageModelError: Error {
    public struct ContextSizeExceeded: Sendable {
        public let contextSize, tokenCount: Int
        public let debugDescription: String
        public init(contextSize: Int, tokenCount: Int, debugDescription: String) {
            self.contextSize = contextSize
            self.tokenCount = tokenCount
            self.debugDescription = debugDescription
        }
    }
    public struct UnsupportedTranscriptContent: Sendable {
        public let unsupportedContent: [Transcript.Entry]
        public let debugDescription: String
        public init(unsupportedContent: [Transcript.Entry], debugDescription: String) {
            self.unsupportedContent = unsupportedContent
            self.debugDescription = debugDescription
        }
    }
    public struct UnsupportedCapability: Sendable {
        public let capability: LanguageModelCapabilities.Capability
        public let debugDescription: String
        public init(capability: LanguageModelCapabilities.Capability, debugDescription: String) {
            self.capability = capability
            self.debugDescription = debugDescription
        }
    }
    case contextSizeExceeded(ContextSizeExceeded), unsupportedTranscriptContent(UnsupportedTranscriptContent)
    case unsupportedCapability(UnsupportedCapability)
}
