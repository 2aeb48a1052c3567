import Foundation

/// `[weather(city="Oslo", days=3)]`: Python's calls with named arguments; a text that is JSON is read as such, too.
struct PythonCalls: CallBody {
    private static let longest = 65536

    func read(_ text: Scalars) throws -> [WrittenCall] {
        let whole = text.trimmed
        if whole.starts(with: "[{".scalars) || whole.first == "{" { return try JsonList().read(whole) }
        if whole.count > Self.longest { throw NotACall(why: "the call is longer than \(Self.longest) characters") }
        var reader = PythonReader(whole)
        return try reader.calls()
    }
}

/// Reads calls and plain values as Python writes them; nothing is executed.
private struct PythonReader {
    private static let deepest = 200
    private static let mostDigits = 4300
    private var reader: ScalarReader
    private var depth = 0

    init(_ text: Scalars) { reader = ScalarReader(text) }

    mutating func calls() throws -> [WrittenCall] {
        let calls = try next() == "[" ? listed("[", "]") { try $0.call() }.items : [call()]
        if next() != nil { throw Self.fault("something follows the calls") }
        if calls.isEmpty { throw Self.fault("the list of calls is empty") }
        return calls
    }

    private mutating func call() throws -> WrittenCall {
        if next() == "(" {
            let calls = try listed("(", ")") { try $0.call() }.items
            if calls.count == 1 { return calls[0] }
            throw Self.fault("a call begins with a name")
        }
        var names = [try name()]
        while taken(".") { names.append(try name()) }
        if next() != "(" { throw Self.fault("a call has a name and named arguments") }
        var arguments = JsonFields()
        _ = try listed("(", ")") { reader in
            let name = try reader.name()
            if !reader.taken("=") { throw Self.fault("an argument has no name") }
            if arguments[name] != nil { throw Self.fault("two arguments have the same name") }
            arguments[name] = try reader.value()
        }
        return WrittenCall(name: names.joined(separator: "."), arguments: arguments)
    }

    private mutating func value() throws -> JsonValue {
        guard let first = next() else { throw Self.fault("a value is missing") }
        if first == "[" { return .items(try listed("[", "]") { try $0.value() }.items) }
        if first == "(" { return try inParentheses() }
        if first == "{" { return try dictionary() }
        if first == "-" { return try negative() }
        if first.isDigit || first == "." { return .word(try number()) }
        if PythonStrings.begins(reader) { return .text(try joined()) }
        let written = try word()
        if let meant = Self.words[written] { return .word(meant) }
        throw Self.fault("an argument is not a plain value")
    }

    /// A tuple, or one value in parentheses.
    private mutating func inParentheses() throws -> JsonValue {
        let (items, commas) = try listed("(", ")") { try $0.value() }
        return items.count == 1 && commas == 0 ? items[0] : .items(items)
    }

    private mutating func dictionary() throws -> JsonValue {
        var fields = JsonFields()
        _ = try listed("{", "}") { reader in
            let name = try reader.key()
            if !reader.taken(":") { throw Self.fault("a colon is missing") }
            fields[name] = try reader.value()
        }
        return .fields(fields)
    }

    private mutating func key() throws -> String {
        let first = next(), isName = first?.properties.isLowercase == true && !PythonStrings.begins(reader)
        if !isName && first != "-" {
            switch try value() {
            case .text(let text): return text
            case .word(let word): return Self.pythonWords[word] ?? word
            default: break
            }
        }
        throw Self.fault("a key is not a plain value")
    }

    private mutating func negative() throws -> JsonValue {
        reader.place += 1
        guard let first = next(), first.isDigit || first == "." else {
            throw Self.fault("an argument is not a plain value")
        }
        return .word(try "-" + number())
    }

    /// Texts that follow each other are one.
    private mutating func joined() throws -> String {
        var out: Scalars = []
        repeat {
            out += try PythonStrings.read(&reader)
            _ = next()
        } while PythonStrings.begins(reader)
        return String(out)
    }

    private mutating func listed<T>(
        _ open: Unicode.Scalar, _ close: Unicode.Scalar, _ item: (inout PythonReader) throws -> T
    ) throws -> (items: [T], commas: Int) {
        _ = taken(open)
        depth += 1
        if depth > Self.deepest { throw Self.fault("it is nested too deeply") }
        var items: [T] = [], commas = 0
        while next() != close {
            items.append(try item(&self))
            if next() == close { break }
            if !taken(",") { throw Self.fault("\(close) is missing") }
            commas += 1
        }
        reader.place += 1
        depth -= 1
        return (items, commas)
    }

    private mutating func name() throws -> String {
        let name = try word()
        if Self.keywords.contains(name) { throw Self.fault("\(name) is not a name") }
        return name
    }

    private mutating func word() throws -> String {
        guard let first = next(), first == "_" || first.properties.isXIDStart else {
            throw Self.fault("a name is missing")
        }
        return String(reader.take { $0.properties.isXIDContinue }).precomposedStringWithCompatibilityMapping
    }

    private mutating func taken(_ character: Unicode.Scalar) -> Bool {
        if next() != character { return false }
        reader.place += 1
        return true
    }

    /// The next character that means something; lines may end within brackets.
    private mutating func next() -> Unicode.Scalar? {
        while let scalar = reader.next {
            if " \t\u{C}".unicodeScalars.contains(scalar) || (depth > 0 && (scalar == "\n" || scalar == "\r")) {
                reader.place += 1
            } else if scalar == "#" {
                _ = reader.take { $0 != "\n" && $0 != "\r" }
            } else if !["\\\r\n", "\\\r", "\\\n"].contains(where: { reader.take($0.scalars) }) {
                return scalar
            }
        }
        return nil
    }

    private static func fault(_ why: String) -> NotACall { NotACall(why: "it is not a list of calls: \(why)") }

    private static let words = [
        "True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null",
    ]
    private static let pythonWords = ["true": "True", "false": "False", "null": "None"]
    private static let keywords = Set(
        ("False None True and as assert async await break class continue def del elif else except finally for from "
            + "global if import in is lambda nonlocal not or pass raise return try while with yield")
            .split(separator: " ").map(String.init))
}

extension PythonReader {
    private mutating func number() throws -> String {
        var number = try digitsOfBase()
        if number == nil { number = try plainNumber() }
        if let scalar = reader.next, scalar.properties.isXIDContinue || scalar == "." {
            throw Self.fault("a number is not one")
        }
        return number ?? ""
    }

    /// A number like 0x1F; nil where it has no such beginning.
    private mutating func digitsOfBase() throws -> String? {
        let mark = String(reader.text[reader.place...].prefix(2)).lowercased()
        guard let base = ["0x": 16, "0o": 8, "0b": 2][mark] else { return nil }
        reader.place += 2
        let written = reader.take { $0.isHexDigit || $0 == "_" }
        guard let digits = Self.withoutLines(written, leading: true), let value = UInt64(digits, radix: base) else {
            throw Self.fault("a number is too large, or not one")
        }
        return String(value)
    }

    private mutating func plainNumber() throws -> String {
        let whole = try digits()
        let part = try reader.take(["."]) ? digits() : nil
        var exponent: String?
        if reader.take(["e"]) || reader.take(["E"]) {
            let sign = reader.take(["-"]) ? "-" : ""
            if sign.isEmpty { _ = reader.take(["+"]) }
            exponent = try sign + digits()
            if exponent == sign { throw Self.fault("a number is not one") }
        }
        if whole.isEmpty && (part ?? "").isEmpty { throw Self.fault("a number is not one") }
        let plain = String(whole.drop { $0 == "0" }), short = plain.isEmpty ? "0" : plain
        if part == nil && exponent == nil {
            if whole.count > Self.mostDigits { throw Self.fault("a number is too large") }
            if short != whole && short != "0" { throw Self.fault("a number begins with 0") }
            return short
        }
        let real = "\(short).\((part ?? "").isEmpty ? "0" : part!)" + (exponent.map { "e\($0)" } ?? "")
        if Double(real)?.isFinite != true { throw Self.fault("a number is too large") }
        return real
    }

    /// Digits, or none, without the lines between them.
    private mutating func digits() throws -> String {
        guard let digits = Self.withoutLines(reader.take { $0.isDigit || $0 == "_" }, leading: false) else {
            throw Self.fault("a number is not one")
        }
        return digits
    }

    /// Digits without single lines between them; nil where a line has another place.
    private static func withoutLines(_ written: Scalars, leading: Bool) -> String? {
        let text = leading ? written.without(start: ["_"]) : written
        if text.first == "_" || text.last == "_" || text.place(of: "__".scalars) != nil { return nil }
        return String(text.filter { $0 != "_" })
    }
}
