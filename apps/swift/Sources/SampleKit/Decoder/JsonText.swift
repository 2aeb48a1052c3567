
/// A text that is not the call that it was opened as.
struct NotACall: Error { let why: String }

/// The entries of an object in their order; of those with one name, the last one counts.
struct JsonFields {
    private(set) var entries: [(name: String, value: JsonValue)] = []

    /// By code points: for Swift, two names that look the same are equal.
    subscript(name: String) -> JsonValue? {
        get { entries.first { $0.name.utf8.elementsEqual(name.utf8) }?.value }
        set {
            guard let newValue else { return }
            if let place = entries.firstIndex(where: { $0.name.utf8.elementsEqual(name.utf8) }) {
                entries[place].value = newValue
            } else {
                entries.append((name, newValue))
            }
        }
    }
}

/// A JSON value, whose description is JSON; numbers stay as they are written.
indirect enum JsonValue: CustomStringConvertible {
    case text(String)
    /// A number, true, false or null.
    case word(String)
    case items([JsonValue])
    case fields(JsonFields)

    var description: String {
        switch self {
        case .text(let text): Self.quoted(text)
        case .word(let word): word
        case .items(let items): "[" + items.map(\.description).joined(separator: ", ") + "]"
        case .fields(let fields):
            "{" + fields.entries.map { "\(Self.quoted($0.name)): \($0.value)" }.joined(separator: ", ") + "}"
        }
    }

    /// A text as a JSON string.
    static func quoted(_ text: String) -> String {
        var out = "\"".scalars
        for scalar in text.unicodeScalars {
            if let mark = marks[scalar] {
                out += "\\".scalars + [mark]
            } else if scalar.value < 0x20 {
                out += ("\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)).scalars
            } else {
                out.append(scalar)
            }
        }
        return String(out + "\"".scalars)
    }

    private static let marks: [Unicode.Scalar: Unicode.Scalar] = [
        "\"": "\"", "\\": "\\", "\u{8}": "b", "\u{C}": "f", "\n": "n", "\r": "r", "\t": "t",
    ]
}

/// Reads JSON as strictly as edgec does in Python: no NaN, nothing endless, nothing behind the value.
struct JsonText {
    private static let deepest = 200
    private static let mostDigits = 40
    private var reader: ScalarReader

    /// The value of a text. Throws `NotACall`.
    static func parse(_ text: Scalars) throws -> JsonValue {
        var json = JsonText(reader: ScalarReader(text.without(start: ["\u{FEFF}"])))
        let value = try json.value(0)
        json.skip()
        if json.reader.next != nil { throw NotACall(why: "something follows the value") }
        return value
    }

    private mutating func value(_ depth: Int) throws -> JsonValue {
        skip()
        switch reader.next {
        case "\""?: return .text(try string())
        case "{"?: return .fields(try fields(depth + 1))
        case "["?: return .items(try items(depth + 1))
        default: return .word(try word())
        }
    }

    private mutating func fields(_ depth: Int) throws -> JsonFields {
        var fields = JsonFields()
        reader.place += 1
        if taken("}") { return fields }
        try Self.check(depth)
        repeat {
            skip()
            if reader.next != "\"" { throw NotACall(why: "a key is missing") }
            let name = try string()
            if !taken(":") { throw NotACall(why: "a colon is missing") }
            fields[name] = try value(depth)
        } while taken(",")
        if !taken("}") { throw NotACall(why: "} is missing") }
        return fields
    }

    private mutating func items(_ depth: Int) throws -> [JsonValue] {
        var items: [JsonValue] = []
        reader.place += 1
        if taken("]") { return items }
        try Self.check(depth)
        repeat { items.append(try value(depth)) } while taken(",")
        if !taken("]") { throw NotACall(why: "] is missing") }
        return items
    }

    private static func check(_ depth: Int) throws {
        if depth > deepest { throw NotACall(why: "it is nested too deeply") }
    }

    private mutating func word() throws -> String {
        for word in ["true", "false", "null"] where reader.take(word.scalars) { return word }
        let start = reader.place
        _ = reader.take("-".scalars)
        let whole = reader.take { $0.isDigit }
        if whole.isEmpty || (whole.count > 1 && whole[0] == "0") { throw NotACall(why: "a value is missing") }
        var isWhole = true
        if reader.take(".".scalars) { isWhole = try digits() }
        if reader.take("e".scalars) || reader.take("E".scalars) {
            if !reader.take("+".scalars) { _ = reader.take("-".scalars) }
            isWhole = try digits()
        }
        if isWhole && whole.count > Self.mostDigits { throw NotACall(why: "a number has too many digits") }
        let number = String(reader.text[start..<reader.place])
        if Double(number)?.isFinite != true { throw NotACall(why: "a number is too large") }
        return number
    }

    /// Digits that must come; a number with them is not a whole one.
    private mutating func digits() throws -> Bool {
        if reader.take(while: { $0.isDigit }).isEmpty { throw NotACall(why: "a number is not one") }
        return false
    }

    private mutating func string() throws -> String {
        var units: [UInt16] = []
        reader.place += 1
        while let scalar = reader.next {
            reader.place += 1
            if scalar == "\"" { return try Self.whole(units) }
            if scalar.value < 0x20 { throw NotACall(why: "a text holds a control character") }
            if scalar == "\\" { units.append(try escaped()) } else { units += String([scalar]).utf16 }
        }
        throw NotACall(why: "a text does not end")
    }

    /// The text of UTF-16 units; half a character without the other is refused.
    private static func whole(_ units: [UInt16]) throws -> String {
        let text = String(decoding: units, as: UTF16.self)
        if !text.utf16.elementsEqual(units) { throw NotACall(why: "a text holds half a character") }
        return text
    }

    private mutating func escaped() throws -> UInt16 {
        guard let mark = reader.next else { throw NotACall(why: "a text does not end") }
        reader.place += 1
        if let meant = Self.escapes[mark] { return UInt16(meant.value) }
        let digits = reader.text[reader.place...].prefix(4)
        guard mark == "u", digits.count == 4, digits.allSatisfy(\.isHexDigit), let unit = UInt16(String(digits), radix: 16)
        else { throw NotACall(why: "there is no such escape") }
        reader.place += 4
        return unit
    }

    private mutating func taken(_ character: Unicode.Scalar) -> Bool {
        skip()
        return reader.take([character])
    }

    private mutating func skip() { _ = reader.take { " \t\n\r".unicodeScalars.contains($0) } }

    private static let escapes: [Unicode.Scalar: Unicode.Scalar] = [
        "\"": "\"", "\\": "\\", "/": "/", "b": "\u{8}", "f": "\u{C}", "n": "\n", "r": "\r", "t": "\t",
    ]
}

extension Unicode.Scalar {
    var isDigit: Bool { "0"..."9" ~= self }
    var isHexDigit: Bool { isDigit || "a"..."f" ~= self || "A"..."F" ~= self }
}
