// Runs the generated package of a model that takes images over a stand-in for Core ML, which replays what Python's calls gave and
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

struct Told: Encodable {
    var calls: [Replayed.Call] = []
    var prompts: [String: [Int]] = [:]
    var tokens: [String: [Int]] = [:]
    var refused: [String: String] = [:]
    var cancelled: [String: Bool] = [:]
    var sizes: [[Int]] = []
    var left = 0
}

extension EdgecModel {
    func begin(_ prompt: [Int]) async throws { try await session.begin(prompt, isolation: self) }
}

let words = CommandLine.arguments
let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: words[1])))
AutoTokenizer.loaded = WordTokenizer(asked.words)
let replayed = Replayed(asked.answers)
// A decoder's functions have a state, the image encoder none.
MLModel.describe = { name in
    let inputs = ModelFacts.methods.first { $0.name == name }?.inputs ?? []
    return Replayed.describe(inputs.map { ($0.name, $0.shape) }, hasState: name != "vision_encoder")
}
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
    replayed.before = { name in if name == "vision_encoder" { withUnsafeCurrentTask { $0?.cancel() } } }
    let result = await Task { try await model.begin(ids) }.result
    replayed.before = { _ in }
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
