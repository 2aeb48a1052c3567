import CoreML
import SampleKitEngine
import Foundation

/// The artifact in Core ML, whose functions edgec's C++ calls.
final class OpenedSpeech {
    let audioHandle: OpaquePointer
    private let model: TranscribedModel

    init(_ bundle: CheckedBundle) async throws {
        let model = try TranscribedModel(try await ModelRuntime(bundle))
        var calls = EdgecAudioCalls()
        calls.context = Unmanaged.passUnretained(model).toOpaque()
        calls.read = { context, source, count in
            TranscribedModel.told(context) { try $0.read(UnsafeBufferPointer(start: source, count: count)) }
        }
        calls.feed = { context, tokens, count, start, logits, vocabulary in
            TranscribedModel.told(context) {
                let fed = UnsafeBufferPointer(start: tokens, count: count).map { Int($0) }
                let made = try $0.feed(fed, at: Int(start))
                logits?.pointee = UnsafePointer(made.baseAddress)
                vocabulary?.pointee = made.count
            }
        }
        audioHandle = try EngineCall.opened { [calls] why, size in
            withUnsafePointer(to: calls) {
                SampleKit_audio_open_called(bundle.folder.path, $0, why, size)
            }
        }
        self.model = model
    }

    deinit { SampleKit_audio_close(audioHandle) }

    /// Why a call of the artifact failed, once.
    func takeFailure() -> (any Error)? {
        defer { model.failure = nil }
        return model.failure
    }
}

/// The functions of an artifact that transcribes: `encode`, `cross`, and the decoder's `prefill` and `decode`.
///
/// The keys and values that `cross` makes go to each call of the decoder as Core ML gave them.
final class TranscribedModel {
    fileprivate var failure: (any Error)?
    private let runtime: ModelRuntime
    private let encode, cross, prefill, decode: MethodFacts
    private let chunk, vocabulary: Int
    private var memory: [String: MLFeatureValue] = [:]
    private var logits = UnsafeMutableBufferPointer<Float>.allocate(capacity: 0)

    init(_ runtime: ModelRuntime) throws {
        self.runtime = runtime
        (encode, cross) = try (MethodFacts.named("encode"), MethodFacts.named("cross"))
        (prefill, decode) = try (MethodFacts.named("prefill"), MethodFacts.named("decode"))
        chunk = prefill.inputs.first { $0.name == "tokens" }?.shape.last ?? 1
        vocabulary = decode.outputs.reduce(0) { $0 + ($1.shape.last ?? 0) }
    }

    deinit { logits.deallocate() }

    /// A call from C: its failure is kept, and told by the status.
    static func told(_ context: UnsafeMutableRawPointer?, _ body: (TranscribedModel) throws -> Void) -> Int32 {
        guard let context else { return 1 }
        let model = Unmanaged<TranscribedModel>.fromOpaque(context).takeUnretainedValue()
        do {
            // Hours of sound are one call of an app: what Core ML leaves behind in it would add up.
            try autoreleasepool { try body(model) }
            return 0
        } catch {
            model.failure = error
            return 1
        }
    }

    /// Let the encoder read a source; what was read before is forgotten.
    func read(_ source: UnsafeBufferPointer<Float>) throws {
        memory = [:]
        guard let input = encode.inputs.first else { throw EdgecError.runtimeDiffers("encode has no input") }
        let states = try runtime.features(encode, [InputTensor(input, .floats(Array(source)))])
        memory = try runtime.features(cross, [], given: states)
    }

    /// Feed tokens at the positions from `start` on; the logits of the last one, valid until the next call.
    ///
    /// The padding of a chunk writes into the cache after the last token, and is overwritten before it is read. Where it
    /// would reach past the end of the cache, tokens go one by one.
    func feed(_ tokens: [Int], at start: Int) throws -> UnsafeMutableBufferPointer<Float> {
        if memory.isEmpty { throw EdgecError.runtimeDiffers("nothing was read yet") }
        if let odd = tokens.first(where: { !(0..<vocabulary).contains($0) }) { throw EdgecError.tokenUnknown(odd) }
        var place = 0
        while place < tokens.count {
            let whole = tokens.count - place > 1 && start + place + chunk <= SpeechFacts.slots
            let size = whole ? min(chunk, tokens.count - place) : 1
            let fed = Array(tokens[place..<(place + size)])
            let padded = fed + Array(repeating: 0, count: whole ? chunk - size : 0)
            try run(whole ? prefill : decode, padded, start + place, last: size - 1)
            place += size
        }
        return logits
    }

    private func run(_ method: MethodFacts, _ tokens: [Int], _ start: Int, last: Int) throws {
        let given: [String: [Int]] = ["tokens": tokens, "start": [start], "last": [last]]
        let inputs = try method.inputs.filter { memory[$0.name] == nil }.map { facts in
            guard let numbers = given[facts.name] else {
                throw EdgecError.runtimeDiffers("\(method.name) needs an input \(facts.name)")
            }
            return try InputTensor(facts, .integers(numbers))
        }
        let made = try runtime.features(method, inputs, given: memory)
        let numbers = try method.outputs.flatMap { try ModelRuntime.floats(made[$0.name], $0.name) }
        if numbers.count != vocabulary {
            throw EdgecError.runtimeDiffers("\(method.name) gives \(numbers.count) numbers instead of \(vocabulary)")
        }
        keep(numbers)
    }

    private func keep(_ numbers: [Float]) {
        if logits.count != numbers.count {
            logits.deallocate()
            logits = .allocate(capacity: numbers.count)
        }
        _ = logits.initialize(from: numbers)
    }
}
