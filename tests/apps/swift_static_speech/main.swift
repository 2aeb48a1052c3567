// Runs the generated package of a model that transcribes through Core ML over a stand-in, which replays what Python's calls
// gave and keeps what it was given; writes all of it as JSON.
import CoreML
import Foundation
@testable import KIT
import Tokenizers

struct Asked: Decodable {
    struct Step: Decodable {
        let name: String
        let language: String?
        let translates: Bool
        let timestamps: Bool?
        let most: Int?
        /// The function whose first call fails in the place of being answered; the answer to it is dropped.
        let failing: String?
    }

    let bundle: String
    let accepted: [String]
    let sound: String
    let steps: [Step]
    let answers: [Replayed.Answer]
}

struct Told: Encodable {
    struct Segment: Encodable {
        let start, end: Double
        let tokens: [Int]
        let text: String
    }

    var calls: [Replayed.Call] = []
    var segments: [String: [Segment]] = [:]
    var languages: [String: String] = [:]
    var refused: [String: String] = [:]
    var left = 0
}

struct CoreMLFailed: Error {}

let words = CommandLine.arguments
let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: words[1])))
AutoTokenizer.loaded = NumberTokenizer()
let replayed = Replayed(asked.answers)
MLModel.describe = { name in
    let inputs = ModelFacts.methods.first { $0.name == name }?.inputs ?? []
    return Replayed.describe(inputs.map { ($0.name, $0.shape) }, hasState: name == "prefill" || name == "decode")
}
MLModel.answer = { try replayed.answer($0, $1, $2) }
var told = Told()

@MainActor func transcribe(_ model: EdgecTranscriber, _ samples: [Float], _ step: Asked.Step) async {
    replayed.before = { name in if name == step.failing { throw CoreMLFailed() } }
    let options = TranscriptionOptions(
        language: step.language, task: step.translates ? .translate : .transcribe, timestamps: step.timestamps,
        maxNewTokens: step.most)
    do {
        let heard = try await model.transcribe(samples, sampleRate: SpeechLimits.samplingRate, options: options)
        told.segments[step.name] = heard.segments.map {
            Told.Segment(start: $0.start, end: $0.end, tokens: $0.tokens, text: $0.text)
        }
        told.languages[step.name] = heard.language
    } catch {
        told.refused[step.name] = "\(error)"
    }
}

let samples = try Data(contentsOf: URL(fileURLWithPath: asked.sound)).withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
let load = LoadOptions(bundle: URL(fileURLWithPath: asked.bundle), acceptedTexts: Set(asked.accepted))
let model = try await EdgecTranscriber.load(load)
for step in asked.steps { await transcribe(model, samples, step) }
told.calls = replayed.calls
told.left = replayed.left
try JSONEncoder().encode(told).write(to: URL(fileURLWithPath: words[2]))
