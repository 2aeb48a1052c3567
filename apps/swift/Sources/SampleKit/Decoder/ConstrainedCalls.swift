import Foundation

/// What a reply may or must call of the package's tools.
public enum ToolChoice: Sendable, Hashable {
    /// The model decides.
    case auto
    /// Nothing: the model does not see the tools.
    case none
    /// At least one.
    case required
    /// The one of this name.
    case tool(String)

    var key: String {
        switch self {
        case .auto: return "auto"
        case .none: return "none"
        case .required: return "required"
        case .tool(let name): return "tool \(name)"
        }
    }
}

/// The structures that edgec's engine holds calls to: resources of this package.
final class ConstrainedCalls {
    private static let folder: URL? = Bundle.module.url(forResource: "calls", withExtension: nil)
    private var checked: Set<String> = []

    /// The structure of messages for a choice, with parallel calls or one at most; nil where calls are held to nothing.
    func structure(_ choice: ToolChoice, parallel: Bool) throws -> CallStructure? {
        if let grammar = ReplyFacts.constrainedChoices[(parallel ? "" : "once ") + choice.key] {
            return CallStructure(grammar: try file(grammar), vocabulary: try file("vocabulary.bin"))
        }
        if !ReplyFacts.constrainedChoices.isEmpty { throw EdgecError.toolChoiceRefused("there is none such: \(choice.key)") }
        if choice != .auto || !parallel {
            throw EdgecError.toolChoiceRefused("only edgec's engine does that, and this artifact has another runtime")
        }
        return nil
    }

    /// A file with the content that it had when this package was written.
    private func file(_ name: String) throws -> URL {
        guard let file = Self.folder?.appending(path: name), FileManager.default.fileExists(atPath: file.path) else {
            throw EdgecError.bundleMissing("what calls are held to, \(name), is not a resource of this package")
        }
        if !checked.contains(name), try BundleCheck.sha256(file, { _ in }) != ReplyFacts.storedFiles[name] {
            throw EdgecError.bundleAltered(file: name, why: "its sha256 differs")
        }
        checked.insert(name)
        return file
    }
}

/// A text that must begin with some tokens, whatever comes after them.
final class HeadedText: ConstrainedText {
    private var head: ArraySlice<Int>
    private let inner: any ConstrainedText

    init(_ head: [Int], _ inner: any ConstrainedText) {
        self.head = head[...]
        self.inner = inner
    }

    func mask(_ logits: inout [Float]) throws {
        if let next = head.first { leaveOnly(next, &logits) } else { try inner.mask(&logits) }
    }

    func take(_ token: Int) throws -> TextProgress {
        if head.isEmpty { return try inner.take(token) }
        head.removeFirst()
        return .open
    }
}

/// Set all logits but one to -infinity.
func leaveOnly(_ next: Int, _ logits: inout [Float]) {
    for token in logits.indices { logits[token] = token == next ? 0 : -.infinity }
}
