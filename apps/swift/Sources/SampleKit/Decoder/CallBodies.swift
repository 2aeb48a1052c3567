
/// A call as it was read.
struct WrittenCall {
    let name: String
    let arguments: JsonFields
}

/// What stands between the markers of a call.
protocol CallBody: Sendable {
    /// The calls of a text. Throws `NotACall`.
    func read(_ text: Scalars) throws -> [WrittenCall]

    /// A call's arguments as the tool's schema has them; `texts` are those that are texts by it. Throws `NotACall`.
    func typed(_ call: WrittenCall, _ texts: Set<String>) throws -> JsonFields
}

extension CallBody {
    func typed(_ call: WrittenCall, _ texts: Set<String>) throws -> JsonFields { call.arguments }
}

/// `{"name": NAME, "arguments": {...}}`, of which the opening marker has `opened` already.
struct JsonCall: CallBody {
    let opened: String

    func read(_ text: Scalars) throws -> [WrittenCall] { [try WrittenCall(of: JsonText.parse(opened.scalars + text))] }
}

/// `[{"name": NAME, "arguments": {...}}, ...]`.
struct JsonList: CallBody {
    func read(_ text: Scalars) throws -> [WrittenCall] {
        let held = try JsonText.parse(text)
        guard case .items(let calls) = held else { return [try WrittenCall(of: held)] }
        if calls.isEmpty { throw NotACall(why: "the list of calls is empty") }
        return try calls.map { try WrittenCall(of: $0) }
    }
}

/// `NAME`, `between`, and the arguments as an object; `skipped` and what follows it are not part of the name.
struct NamedJson: CallBody {
    let between: String
    let skipped: String

    func read(_ text: Scalars) throws -> [WrittenCall] {
        guard let (head, rest) = text.divided(at: between.scalars) else {
            throw NotACall(why: "\(String(between.scalars.trimmed)) is missing after the name")
        }
        let name = skipped.isEmpty ? head : head.divided(at: skipped.scalars)?.before ?? head
        return [try WrittenCall(String(name.trimmed), try JsonText.parse(rest))]
    }
}

/// `<function=NAME>`, and `<parameter=KEY>` with each value; texts stand as they are, other values as JSON.
struct TaggedCall: CallBody {
    /// Qwen 3.5's template shows these in earlier calls as Python writes them, and the model after it.
    private static let words = ["True": "true", "False": "false", "None": "null"]

    func read(_ text: Scalars) throws -> [WrittenCall] {
        let function = "<function=".scalars, whole = text.trimmed
        guard whole.starts(with: function), let (head, tail) = whole.without(start: function).divided(at: [">"]) else {
            throw NotACall(why: "a call begins with <function=NAME>")
        }
        var arguments = JsonFields(), rest = tail.trimmedStart
        while !rest.starts(with: "</function>".scalars) {
            guard let (key, begun) = rest.without(start: "<parameter=".scalars).divided(at: [">"]),
                let (value, after) = begun.divided(at: "</parameter>".scalars)
            else { throw NotACall(why: "a parameter does not end") }
            arguments[String(key.trimmed)] = .text(String(value.without(start: ["\n"]).without(end: ["\n"])))
            rest = after.trimmedStart
        }
        return [WrittenCall(name: String(head.trimmed), arguments: arguments)]
    }

    func typed(_ call: WrittenCall, _ texts: Set<String>) throws -> JsonFields {
        var typed = JsonFields()
        for (name, value) in call.arguments.entries {
            guard case .text(let text) = value, !texts.contains(name) else {
                typed[name] = value
                continue
            }
            typed[name] = try JsonText.parse((Self.words[text] ?? text).scalars)
        }
        return typed
    }
}

extension WrittenCall {
    fileprivate init(of held: JsonValue) throws {
        guard case .fields(var fields) = held else { throw NotACall(why: "a call is an object") }
        if case .fields(let function)? = fields["function"] { fields = function }
        guard case .text(let name)? = fields["name"] else { throw NotACall(why: "the call has no name") }
        try self.init(name, fields["arguments"] ?? fields["parameters"])
    }

    fileprivate init(_ name: String, _ arguments: JsonValue?) throws {
        if name.isEmpty { throw NotACall(why: "the call has no name") }
        guard case .fields(let fields)? = arguments else {
            throw NotACall(why: "the call's arguments are not an object")
        }
        self.init(name: name, arguments: fields)
    }
}
