import CryptoKit
import Foundation

/// What the app's code and its libraries were chosen for: another bundle than the package's must have the same.
enum BundleFit {
    private static let facts: FitPart = FactsFile.part("fit")
    private static let golden = "golden.json"
    /// sha256 of fields of the manifest, as its text has them; empty where there is none.
    private static let common = facts.interface
    /// The operators that the app's runtime was asked to have.
    private static let operators = facts.operators

    /// Refuse a bundle that does not fit, naming what differs.
    static func check(_ manifest: Data, _ files: [String: String]) throws {
        let found = fields(manifest)
        var differing = common.filter { name, sha256 in (found[name].map(sum) ?? "") != sha256 }.map(\.key)
        if !operators.isSuperset(of: entries(found["runtime.operators"] ?? [])) { differing.append("runtime.operators") }
        let own = Dictionary(uniqueKeysWithValues: ModelFacts.files.filter { isRead($0.path) }.map { ($0.path, $0.sha256) })
        let other = files.filter { isRead($0.key) }
        differing += Set(own.keys).union(other.keys).filter { own[$0] != other[$0] }
        let artifact = ModelFacts.artifact
        if !files.keys.contains(where: { $0 == artifact || $0.hasPrefix("\(artifact)/") }) { differing.append(artifact) }
        if files[golden] == nil { differing.append(golden) }
        if !differing.isEmpty { throw EdgecError.bundleDoesNotFit(differing.sorted()) }
    }

    /// Files from which `edgec embed` made code.
    private static func isRead(_ path: String) -> Bool {
        path.hasPrefix("tokenizer/") || path == "generation_config.json" || path == facts.systemPromptFile
    }

    /// The fields of a manifest and those inside them, each as the lines of its canonical text.
    private static func fields(_ manifest: Data) -> [String: [String]] {
        let lines = manifest.split(separator: 10, omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
        var all = fields(lines, "  ")
        for (name, inside) in all {
            for (field, value) in fields(inside, "    ") { all["\(name).\(field)"] = value }
        }
        return all
    }

    private static func fields(_ lines: [String], _ indent: String) -> [String: [String]] {
        var found: [String: [String]] = [:]
        var name = ""
        for line in lines {
            var rest = line
            if line.hasPrefix("\(indent)\""), let end = line.range(of: "\": ") {
                name = String(line[..<end.lowerBound].dropFirst(indent.count + 1))
                rest = String(line[end.upperBound...])
                found[name] = []
            } else if !line.hasPrefix(indent) {
                name = ""
            }
            // Where a state lies in the program's memory is the program's own affair.
            let isOffset = rest.trimmingCharacters(in: .whitespaces).hasPrefix("\"offset\":")
            if !name.isEmpty && !isOffset { found[name]?.append(rest) }
        }
        return found
    }

    /// The texts of a list, as its lines have them.
    private static func entries(_ list: [String]) -> [String] {
        list.map { $0.trimmingCharacters(in: .whitespaces) }.filter { $0.hasPrefix("\"") }.map { line in
            line.trimmingCharacters(in: CharacterSet(charactersIn: "\","))
        }
    }

    /// The sum of a field's text without the comma after it.
    private static func sum(_ lines: [String]) -> String {
        var text = lines.joined(separator: "\n")
        if text.hasSuffix(",") { text.removeLast() }
        return BundleCheck.hex(SHA256.hash(data: Data(text.utf8)))
    }
}

private struct FitPart: Decodable {
    let interface: [String: String]
    let operators: Set<String>
    let systemPromptFile: String
}
