import CryptoKit
import Foundation

/// A folder that the holder of the app's key signed: refused as `edgec verify --public-key` refuses it, in the same order.
///
/// Links, then the signature, then every name and every file; only then is the manifest read. Nothing is written into the
/// folder: what was checked is remembered in the app's own, by sizes, times and numbers of the files.
struct SignedBundle {
    private static let manifest = "manifest.json"
    private static let named = 3
    let folder: URL

    private struct Entry {
        let name: String
        let kind: FileAttributeType
        let links: Int
        let bytes: Int
        let stamp: String

        var isFolder: Bool { kind == .typeDirectory }
    }

    /// Check everything, and that the bundle fits the app; the first call hashes every file.
    func check(always: Bool, _ tell: (LoadStep) -> Void) throws -> CheckedBundle {
        let entries = try self.entries()
        if !entries.contains(where: { $0.name == Self.manifest }) { throw Self.absent("there is no \(Self.manifest)") }
        try refuseLinks(entries)
        let signed = try SignatureFile.read(folder)
        let bundle = CheckedBundle(
            folder: folder, key: signed.sha256, neededBytes: neededBytes(entries), listed: signed.files)
        let stamp = Data(([folder.path] + entries.map(\.stamp)).joined(separator: "\n").utf8)
        let hashes = always || !bundle.isDone("files", stamp)
        try refuseDifferences(entries, signed.files, hashes: hashes, tell)
        try Self.checkFit(folder, signed)
        try bundle.finish("files", stamp)
        return bundle
    }

    private func entries() throws -> [Entry] {
        var found: [Entry] = []
        var pending = [""]
        while let inside = pending.popLast() {
            for name in try names(inside) {
                let entry = try self.entry(inside + name)
                found.append(entry)
                if entry.isFolder { pending.append("\(entry.name)/") }
            }
        }
        return found.sorted { $0.name < $1.name }
    }

    private func names(_ inside: String) throws -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/\(inside)")
        } catch {
            throw Self.absent("\(folder.lastPathComponent)/\(inside) cannot be read")
        }
    }

    private func entry(_ name: String) throws -> Entry {
        guard let facts = try? FileManager.default.attributesOfItem(atPath: "\(folder.path)/\(name)") else {
            throw Self.absent("'\(name)' cannot be read")
        }
        let numbers = [FileAttributeKey.size, .referenceCount, .systemFileNumber].map { (facts[$0] as? NSNumber)?.intValue ?? 0 }
        let time = (facts[.modificationDate] as? Date)?.timeIntervalSinceReferenceDate ?? 0
        return Entry(
            name: name, kind: facts[.type] as? FileAttributeType ?? .typeUnknown, links: numbers[1], bytes: numbers[0],
            stamp: "\(name) \(numbers[0]) \(time) \(numbers[2])")
    }

    /// Refuse what could change from outside.
    private func refuseLinks(_ entries: [Entry]) throws {
        for entry in entries where !entry.isFolder {
            if entry.kind == .typeSymbolicLink { throw Self.differs("'\(entry.name)' is a symbolic link") }
            if entry.kind != .typeRegular { throw Self.differs("'\(entry.name)' is neither a file nor a folder") }
            if entry.links > 1 {
                throw Self.differs(
                    "'\(entry.name)' is a hard link: it has another name, through which it can be changed")
            }
        }
    }

    /// Compare names, and where asked also contents, with what was signed.
    private func refuseDifferences(
        _ entries: [Entry], _ files: [String: String], hashes: Bool, _ tell: (LoadStep) -> Void
    ) throws {
        let folders = Set(files.keys.flatMap { name in name.indices.filter { name[$0] == "/" }.map { String(name[..<$0]) } })
        let present = Set(entries.filter { !$0.isFolder }.map(\.name))
        let signed = entries.filter { $0.isFolder || $0.name != SignatureFile.name }
        let all = signed.filter { !$0.isFolder }.map(\.bytes).reduce(0, +)
        var done = 0
        var found = files.keys.filter { !present.contains($0) }.sorted().map { "'\($0)' is missing" }
        for entry in signed where found.count <= Self.named {
            if entry.isFolder ? !folders.contains(entry.name) : files[entry.name] == nil {
                found.append("'\(entry.name)' was added")
            } else if hashes && !entry.isFolder {
                let sha256 = try BundleCheck.sha256(folder.appending(path: entry.name)) { bytes in
                    done += bytes
                    tell(.checking(bytes: min(done, all), of: all))
                }
                if sha256 != files[entry.name] { found.append("'\(entry.name)' was changed") }
            }
        }
        if found.isEmpty { return }
        let more = found.count > Self.named ? ["and more"] : []
        throw Self.differs((found.prefix(Self.named) + more).joined(separator: "; "))
    }

    /// The memory that the package's own bundle needs, with the artifact of this one.
    private func neededBytes(_ entries: [Entry]) -> Int {
        let own = entries.filter { $0.name == ModelFacts.artifact || $0.name.hasPrefix("\(ModelFacts.artifact)/") }
        let artifact = own.filter { !$0.isFolder }.map(\.bytes).reduce(0, +)
        return ModelFacts.neededBytes + ModelFacts.weightCopies * (artifact - ModelFacts.artifactBytes)
    }

    /// Refuse a signed bundle whose list contradicts itself, whose manifest is not the signed one, or asks for another app.
    static func checkFit(_ folder: URL, _ signed: SignedFiles) throws {
        if let fault = signed.fault { throw fault }
        guard let text = try? Data(contentsOf: folder.appending(path: manifest)) else {
            throw absent("there is no \(manifest)")
        }
        if signed.files[manifest] != BundleCheck.hex(SHA256.hash(data: text)) { throw differs("'\(manifest)' was changed") }
        try BundleFit.check(text, signed.files)
    }

    static func differs(_ why: String) -> EdgecError { .signatureRefused(code: "E604", why: why) }

    private static func absent(_ why: String) -> EdgecError { .signatureRefused(code: "E130", why: why) }
}
