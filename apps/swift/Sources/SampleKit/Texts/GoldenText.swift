import Foundation

/// A text of golden.json, with its ids at export and what was shown of these, at once and in pieces.
struct GoldenText: Decodable {
    let label: String
    let text: String
    let ids: [Int]
    let roundTrip: Bool
    let decoded: String?
    let streamed: String?

    /// Whether the ids are shown as at export; an earlier edgec did not say it of every text.
    func isShown(_ decode: @escaping ([Int]) -> String) -> Bool {
        guard let whole = roundTrip ? text : decoded else { return true }
        if !Self.same(decode(ids), whole) { return false }
        if ids.isEmpty { return true }
        let first = Array(ids.prefix(1))
        var (stream, shown) = (TextStream(after: first, decode: decode), decode(first))
        for token in ids.dropFirst() { shown += stream.push(token) }
        return Self.same(shown + stream.flush(), streamed ?? whole)
    }

    /// Equal code points; texts that look alike are equal to Swift.
    private static func same(_ one: String, _ other: String) -> Bool {
        one.unicodeScalars.elementsEqual(other.unicodeScalars)
    }
}
