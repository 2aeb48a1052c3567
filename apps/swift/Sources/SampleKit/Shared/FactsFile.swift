import Foundation

/// `facts.json`, a resource of this package: what `edgec embed` read in the bundle.
///
/// Each part is decoded into a type of its own, so that a value of another type is never used. A package whose facts
/// cannot be read was not written by `edgec embed`, and does not run.
enum FactsFile {
    private static let mostBytes = 64 << 20
    private static let content = Bundle.module.url(forResource: "facts", withExtension: "json").flatMap {
        try? Data(contentsOf: $0)
    }

    /// A part of the facts of this package's bundle.
    static func part<Part: Decodable>(_ name: String) -> Part {
        do {
            return try part(name, of: content ?? Data())
        } catch {
            fatalError("This package's facts.json cannot be used, \(error). Run `edgec embed` again.")
        }
    }

    /// A part of a file's content, of which nothing is trusted.
    static func part<Part: Decodable>(_ name: String, of content: Data) throws -> Part {
        if content.count > mostBytes { throw EdgecError.bundleAltered(file: "facts.json", why: "it is too large") }
        let decoder = JSONDecoder()
        decoder.userInfo[FactsKey.asked] = name
        return try decoder.decode(NamedFacts<Part>.self, from: content).part
    }
}

/// The name of a part.
private struct FactsKey: CodingKey {
    static let asked = CodingUserInfoKey(rawValue: "part")!
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

/// A file with the part that was asked for; its others are left alone.
private struct NamedFacts<Part: Decodable>: Decodable {
    let part: Part

    init(from decoder: any Swift.Decoder) throws {
        let name = decoder.userInfo[FactsKey.asked] as? String ?? ""
        part = try decoder.container(keyedBy: FactsKey.self).decode(Part.self, forKey: FactsKey(stringValue: name))
    }
}
