
/// `call:NAME{key:value,...}`, with bare keys and `quote` on both sides of a text.
struct GemmaCall: CallBody {
    let quote: String

    func read(_ text: Scalars) throws -> [WrittenCall] {
        let whole = text.trimmed, mark = "call:".scalars
        guard let (head, _) = whole.divided(at: ["{"]), head.starts(with: mark) else {
            throw NotACall(why: "a call is call:NAME{...}")
        }
        var reader = GemmaReader(ScalarReader(Scalars(whole[head.count...])), quote.scalars)
        guard case .fields(let arguments) = try reader.value(0), reader.ended else {
            throw NotACall(why: "something follows the call")
        }
        return [WrittenCall(name: String(head.without(start: mark).trimmed), arguments: arguments)]
    }
}

/// Reads values of the notation from a text.
private struct GemmaReader {
    private static let deepest = 64
    private var reader: ScalarReader
    private let quote: Scalars

    init(_ reader: ScalarReader, _ quote: Scalars) {
        self.reader = reader
        self.quote = quote
    }

    var ended: Bool { reader.rest.trimmed.isEmpty }

    mutating func value(_ depth: Int) throws -> JsonValue {
        if depth > Self.deepest { throw NotACall(why: "it is nested too deeply") }
        if take(quote) { return .text(String(try quoted())) }
        if take(["{"]) { return .fields(try fields(depth)) }
        if take(["["]) { return .items(try items(depth)) }
        let scalar = reader.take { !",{}[]".unicodeScalars.contains($0) }
        if scalar.isEmpty { throw NotACall(why: "a value is missing") }
        return try JsonText.parse(scalar.trimmed)
    }

    private mutating func fields(_ depth: Int) throws -> JsonFields {
        var fields = JsonFields(), begun = false
        while !take(["}"]) {
            if begun && !take([","]) { throw NotACall(why: "} is missing") }
            let name = try key()
            fields[name] = try value(depth + 1)
            begun = true
        }
        return fields
    }

    private mutating func items(_ depth: Int) throws -> [JsonValue] {
        var items: [JsonValue] = []
        while !take(["]"]) {
            if !items.isEmpty && !take([","]) { throw NotACall(why: "] is missing") }
            items.append(try value(depth + 1))
        }
        return items
    }

    private mutating func key() throws -> String {
        let key = try take(quote) ? quoted() : reader.take { Self.isKey($0) }
        if key.isEmpty || !take([":"]) { throw NotACall(why: "a key is missing") }
        return String(key)
    }

    private mutating func quoted() throws -> Scalars {
        guard let (text, _) = reader.rest.divided(at: quote) else { throw NotACall(why: "a text does not end") }
        reader.place += text.count + quote.count
        return text
    }

    private mutating func take(_ wanted: Scalars) -> Bool {
        _ = reader.take { $0.isPythonSpace }
        return reader.take(wanted)
    }

    private static func isKey(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isDigit || "a"..."z" ~= scalar || "A"..."Z" ~= scalar || "_.-".unicodeScalars.contains(scalar)
    }
}
