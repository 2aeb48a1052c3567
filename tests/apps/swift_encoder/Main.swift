import ExecuTorch
import Foundation
import Tokenizers

/// The ids that the tokenizers library gives the texts of a test.
struct ListedTokenizer: Tokenizers.Tokenizer {
    let ids: [String: [Int]]
    /// A text that this tokenizer gets wrong.
    var odd: String?

    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { text == odd ? [] : ids[text] ?? [] }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] { encode(text: text) }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String { "" }
    func convertTokenToId(_ token: String) -> Int? { nil }
    func convertIdToToken(_ id: Int) -> String? { nil }
    var bosToken: String? { nil }
    var bosTokenId: Int? { nil }
    var eosToken: String? { nil }
    var eosTokenId: Int? { nil }
    var unknownToken: String? { nil }
    var unknownTokenId: Int? { nil }
}

struct Cases: Decodable {
    let ids: [String: [Int]]
    let texts: [String]
    let odd, oddLabel: String
}

struct Facts: Encodable {
    var loads: [String: String] = [:]
    /// By the text's place: the vector, or an error.
    var whole: [String] = []
    var cut: [String] = []
    var together = ""
    var oneTooLong = ""
    /// The vector of the first text but one after the prompt, and what is said of a name that there is none of.
    var prompted = ""
    var unprompted = ""
    var unknown = ""
    var counts: [Int] = []
    /// What the artifact was called with: ids and mask.
    var calls: [[[Int]]] = []
    var promptCalls: [[[Int]]] = []
}

/// In the place of the artifact: the rule of `encoder_bundles.rule`.
final class ScriptedEncoder: @unchecked Sendable {
    var calls: [[[Int]]] = []
    var shift = 0

    func execute(_ values: [Value]) -> [Value] {
        let (ids, mask) = (Self.integers(values[0]), Self.integers(values[1]))
        calls.append([ids, mask])
        let sum = ids.indices.reduce(shift) { $0 + mask[$1] * (ids[$1] + 1) * ($1 + 1) }
        let numbers = (0..<EncoderLimits.width).map { Float((sum + 1) * ($0 + 1) % 9973) / 1000 }
        return [numbers.withUnsafeBytes {
            Value(AnyTensor(bytes: $0.baseAddress!, shape: [1, EncoderLimits.width], dataType: .float))
        }]
    }

    private static func integers(_ value: Value) -> [Int] {
        let tensor = value.anyTensor!
        if tensor.dataType == .long { return Tensor<Int64>(tensor).scalars().map { Int($0) } }
        return Tensor<Int32>(tensor).scalars().map { Int($0) }
    }
}

/// Runs the generated kit of a sentence encoder, whose module this is compiled into, and writes what it did as JSON.
@main @MainActor struct Main {
    static func main() async throws {
        let cases = try JSONDecoder().decode(Cases.self, from: Data(contentsOf: URL(fileURLWithPath: "cases.json")))
        let scripted = ScriptedEncoder()
        Module.answers.names = Set(ModelFacts.methods.map(\.name))
        Module.answers.metadata = { name in
            let inputs = ModelFacts.methods[0].inputs.enumerated().map { index, facts in
                (index, TensorMetadata(shape: facts.shape.map { abs($0) }, dataType: .long))
            }
            return MethodMetadata(name: name, inputs: Dictionary(uniqueKeysWithValues: inputs))
        }
        Module.answers.execute = { _, values in scripted.execute(values) }
        var facts = Facts()
        AutoTokenizer.loaded = ListedTokenizer(ids: cases.ids, odd: cases.odd)
        facts.loads["odd text"] = await outcome()
        facts.loads["odd text, accepted"] = await outcome(accepted: [cases.oddLabel])
        try FileManager.default.removeItem(at: FirstStart.folder())
        AutoTokenizer.loaded = ListedTokenizer(ids: cases.ids)
        // Far beyond the tolerance of the golden vector.
        scripted.shift = 1000
        facts.loads["other model"] = await outcome()
        scripted.shift = 0
        let model = try await EdgecModel.load(options())
        scripted.calls = []
        for text in cases.texts {
            facts.counts.append(await model.tokenCount(text))
            facts.whole.append(await said { try await numbers(model.embed(text)) })
            facts.cut.append(await said { try await numbers(model.embed(text, truncate: true)) })
        }
        facts.calls = scripted.calls
        let all = cases.texts
        facts.together = await said { try await model.embed(all, truncate: true).map(numbers).joined(separator: " ") }
        facts.oneTooLong = await said { try await "\(model.embed(all).count)" }
        scripted.calls = []
        facts.prompted = await said { try await numbers(model.embed("a", promptName: "query")) }
        facts.unprompted = await said { try await numbers(model.embed("a", promptName: "")) }
        facts.promptCalls = scripted.calls
        facts.unknown = await said { try await numbers(model.embed("a", promptName: "other")) }
        try JSONEncoder().encode(facts).write(to: URL(fileURLWithPath: "facts.json"))
    }

    private static func options(_ accepted: Set<String> = []) -> LoadOptions {
        let here = URL(fileURLWithPath: FileManager.default.currentDirectoryPath)
        return LoadOptions(bundle: here.appending(path: "bundle"), acceptedTexts: accepted)
    }

    private static func outcome(accepted: Set<String> = []) async -> String {
        await said {
            _ = try await EdgecModel.load(options(accepted))
            return "loaded"
        }
    }

    private static func said(_ body: () async throws -> String) async -> String {
        do { return try await body() } catch { return String(describing: error) }
    }

    private nonisolated static func numbers(_ vector: [Float]) -> String { vector.map { "\($0)" }.joined(separator: " ") }
}
