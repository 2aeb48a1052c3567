// Runs the generated package of a model that sees over a stand-in for Core ML, which replays what Python's calls gave and
// keeps what it was given; writes all of it as JSON.
import CoreML
import Foundation
@testable import KIT
import Tokenizers

struct Asked: Decodable {
    struct Picture: Decodable {
        let width, height: Int
        let rgb: Data
    }
    struct Turn: Decodable {
        let role, text: String
        let images: [Int]
    }
    /// A prompt: a text with images, a conversation, or ids alone.
    struct Step: Decodable {
        let name: String
        let text: String?
        let turns: [Turn]?
        let tokens: [Int]?
        let images: [Int]
        let most: Int
        /// The model forgets what it holds before.
        let fresh: Bool
        /// The answer is cancelled while the first tile is read.
        let cancelled: Bool
    }

    let bundle: String
    let accepted: [String]
    let words: Words
    let pictures: [Picture]
    let steps: [Step]
    let answers: [Replayed.Answer]
    /// The last position that each token sees, of several texts.
    let reaches: [[Int]]
}

/// Numbers of float32 in row order.
struct Given: Decodable {
    let shape: [Int]
    let bytes: Data
}

/// Numbers in row order, as numpy names their type.
struct Kept: Encodable {
    let shape: [Int]
    let type: String
    let bytes: Data
}

struct Told: Encodable {
    struct Call: Encodable {
        let function: String
        let state: Bool
        let inputs: [String: Kept]
    }

    var calls: [Call] = []
    var prompts: [String: [Int]] = [:]
    var tokens: [String: [Int]] = [:]
    var refused: [String: String] = [:]
    var cancelled: [String: Bool] = [:]
    var sizes: [[Int]] = []
    var left = 0
}

struct CallDiffers: Error { let why: String }

/// In the place of Core ML: the answers of Python's calls in their order.
final class Replayed: @unchecked Sendable {
    struct Answer: Decodable {
        let function: String
        let outputs: [String: Given]
    }

    var calls: [Told.Call] = []
    /// The task that a call of `see` cancels.
    var cancelsAtSee = false
    private var answers: ArraySlice<Answer>
    private var state: MLState?
    var left: Int { answers.count }

    init(_ answers: [Answer]) { self.answers = answers[...] }

    func answer(_ name: String?, _ given: any MLFeatureProvider, _ state: MLState?) throws -> any MLFeatureProvider {
        guard let name, let next = answers.popFirst(), next.function == name else {
            throw CallDiffers(why: "call \(calls.count) is of \(name ?? "no function")")
        }
        if let state {
            self.state = self.state ?? state
            if self.state !== state { throw CallDiffers(why: "call \(calls.count) has another state") }
        }
        var inputs: [String: Kept] = [:]
        for input in given.featureNames { inputs[input] = Self.numbers(given.featureValue(for: input)!.multiArrayValue!) }
        calls.append(Told.Call(function: name, state: state != nil, inputs: inputs))
        if name == "see", cancelsAtSee { withUnsafeCurrentTask { $0?.cancel() } }
        return try MLDictionaryFeatureProvider(dictionary: next.outputs.mapValues { MLFeatureValue(multiArray: try Self.array($0)) })
    }

    private static func numbers(_ array: MLMultiArray) -> Kept {
        let shape = array.shape.map(\.intValue)
        switch array.dataType {
        case .int32:
            let bytes = array.withUnsafeBufferPointer(ofType: Int32.self) { Data(buffer: $0) }
            return Kept(shape: shape, type: "int32", bytes: bytes)
        case .float16:
            let bytes = array.withUnsafeBufferPointer(ofType: Float16.self) { Data(buffer: $0) }
            return Kept(shape: shape, type: "float16", bytes: bytes)
        default:
            let bytes = array.withUnsafeBufferPointer(ofType: Float.self) { Data(buffer: $0) }
            return Kept(shape: shape, type: "float32", bytes: bytes)
        }
    }

    private static func array(_ numbers: Given) throws -> MLMultiArray {
        let array = try MLMultiArray(shape: numbers.shape.map { NSNumber(value: $0) }, dataType: .float32)
        array.withUnsafeMutableBufferPointer(ofType: Float.self) { buffer, _ in
            _ = numbers.bytes.copyBytes(to: UnsafeMutableRawBufferPointer(buffer))
        }
        return array
    }

    /// What Core ML says of a function: a decoder's have a state, the image encoder none.
    static func describe(_ name: String?) -> MLModelDescription {
        let description = MLModelDescription()
        guard let method = ModelFacts.methods.first(where: { $0.name == name }) else { return description }
        for input in method.inputs {
            let shape = input.shape.map { NSNumber(value: $0) }
            let constraint = MLMultiArrayConstraint(shape: shape, dataType: .float32)
            description.inputDescriptionsByName[input.name] = MLFeatureDescription(name: input.name, constraint: constraint)
        }
        if method.name != "see" {
            description.stateDescriptionsByName["cache"] = MLFeatureDescription(name: "cache", constraint: nil)
        }
        return description
    }
}

extension EdgecModel {
    func begin(_ prompt: [Int]) async throws { try await session.begin(prompt, isolation: self) }
}

let words = CommandLine.arguments
let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: words[1])))
AutoTokenizer.loaded = WordTokenizer(asked.words)
let replayed = Replayed(asked.answers)
MLModel.describe = { Replayed.describe($0) }
MLModel.answer = { try replayed.answer($0, $1, $2) }
let images = try asked.pictures.map { try ModelImage(width: $0.width, height: $0.height, rgb: Array($0.rgb)) }
var told = Told()

@MainActor func chosen(_ places: [Int]) -> [ModelImage] { places.map { images[$0] } }

@MainActor func prompt(_ model: EdgecModel, _ step: Asked.Step) async throws -> [Int] {
    if let tokens = step.tokens { return tokens }
    if let turns = step.turns {
        return try await model.prompt(
            turns.map { ChatMessage(ChatMessage.Role(rawValue: $0.role)!, $0.text, images: chosen($0.images)) })
    }
    return try await model.prompt(step.text ?? "", chosen(step.images))
}

/// The tokens of an answer; an error is told in their place.
@MainActor func answer(_ model: EdgecModel, _ step: Asked.Step) async {
    do {
        if step.fresh { await model.reset() }
        let ids = try await prompt(model, step)
        told.prompts[step.name] = ids
        if step.cancelled { return try await cancel(model, step, ids) }
        let stream = model.generate(tokens: ids, options: GenerationOptions(maxNewTokens: step.most))
        var said: [Int] = []
        for try await token in stream { said.append(token) }
        told.tokens[step.name] = said
    } catch {
        told.refused[step.name] = "\(error)"
    }
}

@MainActor func cancel(_ model: EdgecModel, _ step: Asked.Step, _ ids: [Int]) async throws {
    replayed.cancelsAtSee = true
    let result = await Task { try await model.begin(ids) }.result
    replayed.cancelsAtSee = false
    if case .failure(let error) = result { told.cancelled[step.name] = error is CancellationError }
}

@MainActor func sizes(_ reach: [Int]) -> [Int] {
    let places = ImagePlaces(tokens: reach.count, rows: [], reach: reach, parts: [], next: 0, kept: 0)
    var sizes: [Int] = [], start = 0
    while start < reach.count, sizes.last != 0 {
        sizes.append(places.callSize(start, reach.count))
        start += sizes[sizes.count - 1]
    }
    return sizes
}

let load = LoadOptions(bundle: URL(fileURLWithPath: asked.bundle), acceptedTexts: Set(asked.accepted))
let model = try await EdgecModel.load(load)
for step in asked.steps { await answer(model, step) }
told.calls = replayed.calls
told.left = replayed.left
told.sizes = asked.reaches.map(sizes)
try JSONEncoder().encode(told).write(to: URL(fileURLWithPath: words[2]))
