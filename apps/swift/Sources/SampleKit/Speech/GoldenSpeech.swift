import Foundation
import Tokenizers

/// Replays golden.json on this device, at the first start of a bundle.
struct GoldenSpeech: Decodable {
    private struct Output: Decodable {
        let promptIds: [Int]
        let continuationIds: [Int]
        let margins: [Float]
        let tolerance: Float
    }

    private let texts: [GoldenText]
    private let outputs: [Output]

    init(_ bundle: URL) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(contentsOf: bundle.appending(path: "golden.json")))
    }

    /// Every text must give the ids and be shown as at export, except those whose labels are accepted.
    func checkTokens(_ tokenizer: any Tokenizer, accepted: Set<String>) throws {
        let decode = { (ids: [Int]) in tokenizer.decode(tokens: ids, skipSpecialTokens: true) }
        let differing = texts.filter { tokenizer.encode(text: $0.text) != $0.ids || !$0.isShown(decode) }.map(\.label)
        let refused = differing.filter { !accepted.contains($0) }
        if !refused.isEmpty { throw EdgecError.tokenizerDiffers(labels: refused) }
    }

    /// The greedy text after a made-up source must be the one at export, except where its lead was within the tolerance.
    func checkOutputs(_ runtime: SpeechRuntime) throws {
        if outputs.isEmpty { throw EdgecError.bundleAltered(file: "golden.json", why: "it has no outputs") }
        try runtime.read((0..<SpeechFacts.goldenValues).map(Self.probe))
        for output in outputs { try check(output, runtime) }
    }

    /// The prompt goes into one call, so that both ways of feeding tokens are compared, over the same cache.
    private func check(_ output: Output, _ runtime: SpeechRuntime) throws {
        var (fed, start) = (output.promptIds, 0)
        for (step, wanted) in output.continuationIds.enumerated() {
            let logits = try runtime.feed(fed, at: start)
            start += fed.count
            fed = [wanted]
            let likeliest = logits.indices.max { logits[$0] < logits[$1] }
            if likeliest != wanted, !(output.margins[step] <= output.tolerance) {
                throw EdgecError.outputDiffers("after \(start) tokens the likeliest is not \(wanted)")
            }
        }
    }

    /// Numbers that every language can compute alike: (2654435761 * i + 12345) mod 2^32, in -1..1.
    private static func probe(_ index: Int) -> Float {
        Float(Double((2_654_435_761 &* UInt64(index) &+ 12_345) % (1 << 32)) / 2_147_483_648 - 1)
    }
}
