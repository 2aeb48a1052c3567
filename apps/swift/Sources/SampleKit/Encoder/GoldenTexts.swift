import Foundation

/// Compares the ids that the tokenizer gives golden texts with those at export.
enum GoldenTexts {
    private struct Golden: Decodable { let texts: [Text] }

    private struct Text: Decodable {
        let label: String
        let text: String
        let ids: [Int]
    }

    /// Every text must give the ids that it gave at export, except those whose labels are accepted.
    static func check(_ bundle: URL, _ encoder: TextEncoder, accepted: Set<String>) throws {
        let data = try Data(contentsOf: bundle.appending(path: "golden.json"))
        let golden = try JSONDecoder().decode(Golden.self, from: data)
        let differing = golden.texts.filter { encoder.encode($0.text) != $0.ids }.map(\.label)
        let refused = differing.filter { !accepted.contains($0) }
        if !refused.isEmpty { throw EdgecError.tokenizerDiffers(labels: refused) }
    }
}
