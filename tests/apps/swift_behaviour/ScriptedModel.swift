import ExecuTorch
import Foundation
import Tokenizers

/// Text as bytes: 1 begins every text, 2 and less are special, 3...255 are bytes.
struct ByteTokenizer: Tokenizers.Tokenizer {
    /// A text that this tokenizer gets wrong.
    var odd: String?

    func tokenize(text: String) -> [String] { [] }
    func encode(text: String) -> [Int] { [1] + (text == odd ? [] : text.utf8.map { Int($0) }) }
    func encode(text: String, addSpecialTokens: Bool) -> [Int] {
        addSpecialTokens ? encode(text: text) : text.utf8.map { Int($0) }
    }
    func decode(tokens: [Int], skipSpecialTokens: Bool) -> String {
        String(decoding: tokens.filter { $0 > 2 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    }
    func convertTokenToId(_ token: String) -> Int? { nil }
    func convertIdToToken(_ id: Int) -> String? { nil }
    var bosToken: String? { nil }
    var bosTokenId: Int? { nil }
    var eosToken: String? { nil }
    var eosTokenId: Int? { nil }
    var unknownToken: String? { nil }
    var unknownTokenId: Int? { nil }
    func applyChatTemplate(messages: [Tokenizers.Message]) throws -> [Int] {
        let lines = messages.map { "<\($0["role"] ?? "")>\($0["content"] ?? "")\n" }
        return (lines.joined() + "<assistant>").utf8.map { Int($0) }
    }
}

struct Script: Decodable {
    let prompt: [Int]
    let answer: [Int]
}

struct ModelFails: Error {}

/// In the place of the artifact: the next token follows from all tokens that the caches hold.
///
/// `forward` has its own cache. `prefill` and `decode` read the caller's: every head writes token + 512 * head to every
/// place of its rows, and whatever stands there later must be that.
final class ScriptedModel: @unchecked Sendable {
    static let heads = 2, slots = 128, width = 32
    let scripts: [Script]
    /// What a call did: method, first position, tokens that count.
    var calls: [String] = []
    var failAt: Int?
    var secondsPerCall = 0.0
    /// Added to every token: another model than the one that was exported.
    var shift = 0
    var saysNothing = false

    private var own: [Int: Int] = [:]

    init(_ scripts: [Script]) { self.scripts = scripts }

    func execute(_ method: String, _ values: [Value]) throws -> [Value] {
        if secondsPerCall > 0 { Thread.sleep(forTimeInterval: secondsPerCall) }
        let tokens = Self.integers(values[0]), start = Self.integers(values[1])[0], last = Self.integers(values[2])[0]
        calls.append("\(method) \(start) \(last + 1)")
        if calls.count == failAt { throw ModelFails() }
        if method.hasPrefix("forward") {
            for (position, token) in zip(Self.integers(values[1]), tokens) { own[position] = token }
            return [Self.tensor(logits(next((0...(start + last)).map { own[$0] ?? -1 })), [1, 1, 512], .float)]
        }
        let before = try (0..<start).map { slot in try Self.held(values[3...].map { $0.anyTensor! }, slot) }
        let rows = Self.rows(tokens)
        let states = values[3...].map { _ in Self.tensor(rows, [1, Self.heads, tokens.count, Self.width], .half) }
        let numbers = logits(next(before + tokens[...last]))
        // In two halves, as a split vocabulary gives them.
        return [numbers[..<256], numbers[256...]].map { Self.tensor(Array($0), [1, 1, 256], .float) } + states
    }

    private func next(_ tokens: [Int]) -> Int {
        for script in scripts where tokens.starts(with: script.prompt) {
            let index = tokens.count - script.prompt.count
            if index < script.answer.count { return script.answer[index] }
        }
        let last = tokens.count - 1
        return (31 * tokens[last] + 7 * last + (last > 0 ? tokens[last - 1] : 0)) % 96 + 32 + shift
    }

    private func logits(_ token: Int) -> [Float] {
        var numbers = (0..<512).map { -0.001 * Float($0) }
        numbers[token] = saysNothing ? .nan : 5
        return numbers
    }

    private static func integers(_ value: Value) -> [Int] {
        let tensor = value.anyTensor!
        if tensor.dataType == .long { return Tensor<Int64>(tensor).scalars().map { Int($0) } }
        return Tensor<Int32>(tensor).scalars().map { Int($0) }
    }

    private static func tensor<T>(_ numbers: [T], _ shape: [Int], _ type: DataType) -> Value {
        Value(numbers.withUnsafeBytes { AnyTensor(bytes: $0.baseAddress!, shape: shape, dataType: type) })
    }

    private static func rows(_ tokens: [Int]) -> [Float16] {
        (0..<heads).flatMap { head in
            tokens.flatMap { token in [Float16](repeating: Float16(token + 512 * head), count: width) }
        }
    }

    /// The token that every state holds at a slot.
    private static func held(_ states: [AnyTensor], _ slot: Int) throws -> Int {
        var found: Set<Int> = []
        for state in states {
            state.bytes { pointer, _, _ in
                let numbers = pointer.assumingMemoryBound(to: Float16.self)
                for head in 0..<heads {
                    let row = (head * slots + slot) * width
                    for place in [row, row + 7, row + width - 1] { found.insert(Int(numbers[place]) - 512 * head) }
                }
            }
        }
        if found.count != 1 { throw EdgecError.outputDiffers("slot \(slot) holds \(found.sorted())") }
        return found.first ?? 0
    }
}
