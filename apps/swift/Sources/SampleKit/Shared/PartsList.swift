import Foundation

/// A part of a bundle: a plain file name beside the list.
struct Part: Hashable {
    let name: String
    let bytes: Int
    let sha256: String
}

/// What `parts.json` of `edgec split` says: the files, one after the other, are the parts, one after the other.
struct PartsList {
    static let name = "parts.json"
    static let maxBytes = 8 << 20
    private static let maxCount = 10_000
    private static let maxPartBytes = 100_000_000
    static let maxManifestBytes = 64 << 20
    private static let maxWhole = 1 << 53

    let digest: String
    let bytes: Int
    let files: [BundleFile]
    let parts: [Part]
    /// The first byte of each part, then the end.
    let starts: [Int]

    /// Reads a list, of which nothing is trusted.
    init(_ text: Data) throws {
        let fields: PartsFields
        do {
            fields = try JSONDecoder().decode(PartsFields.self, from: text)
        } catch let error as EdgecError {
            throw error
        } catch {
            throw EdgecError.downloadRefused("\(Self.name) cannot be read, \(error)")
        }
        digest = fields.digest
        bytes = fields.bytes
        files = fields.files.map { BundleFile(path: $0.name, bytes: $0.bytes, sha256: $0.sha256) }
        parts = fields.parts.map { Part(name: $0.name, bytes: $0.bytes, sha256: $0.sha256) }
        var starts = [0]
        for part in fields.parts { starts.append(starts.last! &+ part.bytes) }
        self.starts = starts
        try check()
    }

    /// Where the manifest ends, or if `signed` whichever ends last of it and the signature.
    func openingBytes(signed: Bool) -> Int {
        let last = files.lastIndex { $0.path == "manifest.json" || (signed && $0.path == SignatureFile.name) } ?? 0
        return files[...last].map(\.bytes).reduce(0, +)
    }

    /// Refuses a list without a signature.
    func requireSignature() throws {
        if files.contains(where: { $0.path == SignatureFile.name }) { return }
        throw EdgecError.signatureRefused(code: "E601", why: "\(Self.name) names no \(SignatureFile.name)")
    }

    /// Refuses names that leave the folder or come twice, and sizes that do not add up.
    private func check() throws {
        try Self.require(1...Self.maxCount ~= files.count && 1...Self.maxCount ~= parts.count, "it has too many entries, or none")
        try Self.require(
            files[0].path == "manifest.json" && files[0].bytes <= Self.maxManifestBytes, "the manifest is not first")
        try Self.require(([digest] + files.map(\.sha256) + parts.map(\.sha256)).allSatisfy(Self.isSHA256), "a sha256 is none")
        for file in files { if let why = Self.pathFault(file.path) { try Self.require(false, why) } }
        try checkNames()
        for part in parts {
            try Self.require(Self.isPartName(part.name) && 1...Self.maxPartBytes ~= part.bytes, "the part \(part.name)")
        }
        let sums = [try Self.sum(files.map(\.bytes)), try Self.sum(parts.map(\.bytes))]
        try Self.require(sums == [bytes, bytes], "the sizes do not add up")
    }

    private func checkNames() throws {
        let names = files.map { $0.path.lowercased() }
        let folders = Set(names.flatMap { name in name.indices.filter { name[$0] == "/" }.map { String(name[..<$0]) } })
        try Self.require(Set(names).count == names.count, "a file is listed twice")
        try Self.require(!names.contains { folders.contains($0) }, "a file is also a folder")
        let own = parts.map { $0.name.lowercased() } + [Self.name]
        try Self.require(Set(own).count == own.count, "a part is listed twice")
    }

    /// Why a path may leave its folder on some system, or nil.
    static func pathFault(_ path: String) -> String? {
        if path.isEmpty || path.unicodeScalars.count > 512 { return "a path is empty or too long" }
        let pieces = path.split(separator: "/", omittingEmptySubsequences: false)
        if pieces.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) { return "the path \(path) leaves the folder" }
        return path.unicodeScalars.contains(where: isOdd) ? "the path \(path) is not portable" : nil
    }

    private static func isOdd(_ character: Unicode.Scalar) -> Bool {
        if character == " " { return false }
        if "\\:*?\"<>|".unicodeScalars.contains(character) { return true }
        switch character.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .lineSeparator, .paragraphSeparator, .spaceSeparator: return true
        default: return false
        }
    }

    private static func isPartName(_ name: String) -> Bool {
        guard let first = name.utf8.first, isLetterOrDigit(first), name.utf8.count <= 100 else { return false }
        return name.utf8.allSatisfy { isLetterOrDigit($0) || "._-".utf8.contains($0) }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: return true
        default: return false
        }
    }

    static func isSHA256(_ text: String) -> Bool {
        text.utf8.count == 64 && text.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    }

    private static func sum(_ sizes: [Int]) throws -> Int {
        try sizes.reduce(0) { all, size in
            try require(0...maxWhole ~= size && all <= maxWhole, "a number is out of range")
            return all + size
        }
    }

    private static func require(_ holds: Bool, _ why: String) throws {
        if !holds { throw EdgecError.downloadRefused("\(name) cannot be used, \(why)") }
    }
}

/// The fields of `parts.json`; others than these are refused.
private struct PartsFields: Decodable {
    let digest: String
    let bytes: Int
    let files: [Entry]
    let parts: [Entry]

    init(from decoder: any Swift.Decoder) throws {
        let fields = try Named(decoder, ["format_version", "name", "digest", "bytes", "files", "parts"])
        let version: Int = try fields.value("format_version")
        if version != 1 { throw EdgecError.downloadRefused("\(PartsList.name) has version \(version) instead of 1") }
        let name: String = try fields.value("name")
        if name.unicodeScalars.count > 1_000 { throw EdgecError.downloadRefused("\(PartsList.name) has a name too long") }
        digest = try fields.value("digest")
        bytes = try fields.value("bytes")
        files = try fields.value("files")
        parts = try fields.value("parts")
    }

    /// A file, which has a path, or a part, which has a name.
    struct Entry: Decodable {
        let name: String
        let bytes: Int
        let sha256: String

        init(from decoder: any Swift.Decoder) throws {
            let place = decoder.codingPath.first?.stringValue == "files" ? "path" : "name"
            let fields = try Named(decoder, [place, "bytes", "sha256"])
            name = try fields.value(place)
            bytes = try fields.value("bytes")
            sha256 = try fields.value("sha256")
        }
    }
}

/// An object with exactly the fields of these names.
private struct Named {
    private let fields: KeyedDecodingContainer<Name>

    init(_ decoder: any Swift.Decoder, _ names: Set<String>) throws {
        fields = try decoder.container(keyedBy: Name.self)
        if Set(fields.allKeys.map(\.stringValue)) != names {
            throw EdgecError.downloadRefused("\(PartsList.name) has other fields than this app knows")
        }
    }

    func value<Value: Decodable>(_ name: String) throws -> Value { try fields.decode(Value.self, forKey: Name(name)) }

    private struct Name: CodingKey {
        let stringValue: String
        let intValue: Int? = nil

        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { return nil }
    }
}
