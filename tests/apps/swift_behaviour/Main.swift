import CryptoKit
import ExecuTorch
import Foundation
import Tokenizers
import os

/// What to do: requests to the good bundle, and loads of it and of others under circumstances.
struct Cases: Decodable {
    struct Load: Decodable {
        let name, bundle: String
        let fresh, hashAlways: Bool?
        let accepted: [String]?
        let oddText: String?
        let shift, availableMemory: Int?
        let saysNothing: Bool?
    }

    let pieces: Pieces
    let scripts: [Script]
    let loads: [Load]
    let requests, together: [Request]
}

struct Facts: Encodable {
    let sha256: String
    let stopped: [[String?]]
    let streamed: [[String]]
    let chosen: [[[Int]]]
    let loads: [String: String]
    let answers: [String: Answered]
    let together: [[String]]
}

/// Runs the generated kit, whose module this is compiled into, and writes what it did as JSON.
@main struct Main {
    static func main() async throws {
        let cases = try JSONDecoder().decode(Cases.self, from: Data(contentsOf: URL(fileURLWithPath: "cases.json")))
        let scripted = ScriptedModel(cases.scripts)
        Module.answers.names = Set(ModelFacts.methods.map(\.name))
        Module.answers.metadata = { name in
            let inputs = ModelFacts.methods.first { $0.name == name }!.inputs.enumerated()
            let known = inputs.map { ($0, TensorMetadata(shape: $1.shape, dataType: .half)) }
            return MethodMetadata(name: name, inputs: Dictionary(uniqueKeysWithValues: known))
        }
        Module.answers.execute = { try scripted.execute($0, $1) }
        var loads: [String: String] = [:]
        for load in cases.loads { loads[load.name] = await outcome(load, scripted) }
        let answers = Answers(model: try await EdgecModel.load(options("bundle")), scripted: scripted)
        var answered: [String: Answered] = [:]
        for request in cases.requests { answered[request.name] = await answers.answer(request) }
        let facts = Facts(
            sha256: SHA256.hash(data: Data("abc".utf8)).map { String(format: "%02x", $0) }.joined(),
            stopped: cases.pieces.stopped(), streamed: cases.pieces.streamed(), chosen: cases.pieces.chosen(),
            loads: loads, answers: answered, together: await answers.together(cases.together))
        try JSONEncoder().encode(facts).write(to: URL(fileURLWithPath: "facts.json"))
    }

    private static func options(_ bundle: String) -> LoadOptions {
        LoadOptions(bundle: URL(fileURLWithPath: FileManager.default.currentDirectoryPath).appending(path: bundle))
    }

    /// What `load()` says; "loaded" where it says nothing.
    private static func outcome(_ load: Cases.Load, _ scripted: ScriptedModel) async -> String {
        if load.fresh == true { try? FileManager.default.removeItem(at: FirstStart.folder()) }
        AutoTokenizer.loaded = ByteTokenizer(odd: load.oddText)
        availableMemoryForTests = load.availableMemory ?? 0
        (scripted.shift, scripted.saysNothing) = (load.shift ?? 0, load.saysNothing ?? false)
        defer {
            AutoTokenizer.loaded = ByteTokenizer()
            availableMemoryForTests = 0
            (scripted.shift, scripted.saysNothing) = (0, false)
        }
        var given = options(load.bundle)
        given.hashAlways = load.hashAlways ?? false
        given.acceptedTexts = Set(load.accepted ?? [])
        do {
            _ = try await EdgecModel.load(given)
            return "loaded"
        } catch {
            return String(describing: error)
        }
    }
}
