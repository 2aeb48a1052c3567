
/// Reads texts as Python writes them: either quote, one or three of them, with escapes or raw.
struct PythonStrings {
    private var reader: ScalarReader
    private let quote: Scalars
    private var out: Scalars = []

    /// The letters in front of a text's quotes, and the quotes; nil where no text begins.
    private static func start(_ reader: ScalarReader) -> (prefix: Scalars, quote: Scalars)? {
        let rest = reader.text[reader.place...]
        let prefix = Scalars(rest.prefix { "a"..."z" ~= $0 || "A"..."Z" ~= $0 }.prefix(3))
        guard prefix.count < 3, let mark = rest.dropFirst(prefix.count).first, mark == "'" || mark == "\"" else {
            return nil
        }
        let three: Scalars = [mark, mark, mark]
        return (prefix, rest.dropFirst(prefix.count).starts(with: three) ? three : [mark])
    }

    static func begins(_ reader: ScalarReader) -> Bool { start(reader) != nil }

    /// Read the text that begins next. Throws `NotACall`.
    static func read(_ reader: inout ScalarReader) throws -> Scalars {
        guard let (prefix, quote) = start(reader) else { throw NotACall(why: "a text is missing") }
        let kind = String(prefix).lowercased()
        if !["", "r", "u"].contains(kind) { throw NotACall(why: "an argument is not a plain text") }
        reader.place += prefix.count + quote.count
        var strings = PythonStrings(reader: reader, quote: quote)
        try strings.read(isRaw: kind == "r")
        reader = strings.reader
        return strings.out
    }

    private mutating func read(isRaw: Bool) throws {
        while !reader.take(quote) {
            guard let scalar = reader.next, scalar.value != 0 else { throw NotACall(why: "a text does not end") }
            if takeLine() {
                if quote.count == 1 { throw NotACall(why: "a text does not end") }
                out.append("\n")
            } else if scalar == "\\" {
                reader.place += 1
                if isRaw { keepEscape() } else { try takeEscape() }
            } else {
                out.append(scalar)
                reader.place += 1
            }
        }
    }

    /// Move on behind the end of a line, where one comes next.
    private mutating func takeLine() -> Bool {
        reader.take("\r\n".scalars) || reader.take(["\r"]) || reader.take(["\n"])
    }

    private mutating func keepEscape() {
        out.append("\\")
        if takeLine() {
            out.append("\n")
        } else if let scalar = reader.next {
            out.append(scalar)
            reader.place += 1
        }
    }

    private mutating func takeEscape() throws {
        if takeLine() { return }
        let octal = reader.text[reader.place...].prefix(3).prefix { "0"..."7" ~= $0 }
        if let value = UInt32(String(octal), radix: 8), let scalar = Unicode.Scalar(value) {
            out.append(scalar)
            reader.place += octal.count
            return
        }
        guard let mark = reader.next else { throw NotACall(why: "a text does not end") }
        reader.place += 1
        if let size = Self.sizes[mark] { return try takePoint(size) }
        if mark == "N" { throw NotACall(why: "a character is given by its name") }
        // Python keeps the backslash of an escape that it does not know.
        out += Self.escapes[mark].map { [$0] } ?? ["\\", mark]
    }

    private mutating func takePoint(_ size: Int) throws {
        let digits = reader.text[reader.place...].prefix(size)
        guard digits.count == size, digits.allSatisfy(\.isHexDigit), let value = UInt32(String(digits), radix: 16),
            let scalar = Unicode.Scalar(value)
        else { throw NotACall(why: "an escape is not one") }
        out.append(scalar)
        reader.place += size
    }

    private static let sizes: [Unicode.Scalar: Int] = ["x": 2, "u": 4, "U": 8]
    private static let escapes: [Unicode.Scalar: Unicode.Scalar] = [
        "\\": "\\", "'": "'", "\"": "\"", "a": "\u{7}", "b": "\u{8}", "f": "\u{C}", "n": "\n", "r": "\r", "t": "\t",
        "v": "\u{B}",
    ]
}
