import CryptoKit
import Foundation

/// A download on its way, in a hidden folder beside the one that it becomes, so that it survives the app.
///
///     .NAME.download/
///         list        the list of parts; another list begins anew
///         taken       how many parts are in their place
///         part-N      the part that is arriving
///         bundle/     parts whose sha256 was right; becomes NAME
final class DownloadFolder {
    private let target: URL
    private let work: URL
    private let bundle: URL
    private let lock: Int32
    private var list: PartsList?
    /// How many parts are in their place.
    private(set) var taken = 0

    init(_ target: URL) throws {
        self.target = target
        work = target.deletingLastPathComponent().appending(path: ".\(target.lastPathComponent).download")
        bundle = work.appending(path: "bundle")
        let folder = work
        try Self.storing { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }
        lock = open(work.appending(path: "lock").path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        if lock < 0 { throw EdgecError.storageFailed("\(work.path) cannot be written") }
        if flock(lock, LOCK_EX | LOCK_NB) != 0 { throw EdgecError.downloadRunning(target.path) }
    }

    deinit { if lock >= 0 { close(lock) } }

    /// Go on with what an earlier call left of the same list, or begin anew.
    func resume(_ text: Data, _ list: PartsList) throws {
        self.list = list
        if (try? Data(contentsOf: work.appending(path: "list"))) == text {
            let kept = (try? String(contentsOf: work.appending(path: "taken"), encoding: .utf8)) ?? ""
            taken = min(max(Int(kept) ?? 0, 0), list.parts.count)
        } else {
            try clear()
            try write("taken", Data("0".utf8))
            try write("list", text)
        }
        for old in try entries() where old.lastPathComponent.hasPrefix("part-") && old != part {
            try Self.storing { try FileManager.default.removeItem(at: old) }
        }
    }

    /// The file of the part that is arriving.
    var part: URL { work.appending(path: "part-\(taken)") }

    /// Bytes that are in their place.
    var takenBytes: Int { list?.starts[taken] ?? 0 }

    /// Refuses to begin what the disk cannot hold: the rest of the bundle and one part.
    func checkSpace() throws {
        guard let list else { return }
        let arrived = (try? part.resourceValues(forKeys: [.fileSizeKey]).fileSize) ?? 0
        let largest = list.parts[taken...].map(\.bytes).max() ?? 0
        let needed = list.bytes - takenBytes + largest - arrived
        let facts = try? FileManager.default.attributesOfFileSystem(forPath: work.path)
        guard let free = (facts?[.systemFreeSize] as? NSNumber)?.intValue else { return }
        if free < needed { throw EdgecError.notEnoughSpace(neededBytes: needed, availableBytes: free) }
    }

    /// Copy a part, which was checked, to its place; a part counts once its bytes are on the disk.
    func take() throws {
        guard let list else { return }
        let done = part
        try Self.storing {
            let from = try FileHandle(forReadingFrom: done)
            defer { try? from.close() }
            for (file, at, count) in Self.segments(list.files, list.starts[taken], list.starts[taken + 1]) {
                let to = try Self.writable(bundle.appending(path: file.path))
                defer { try? to.close() }
                try to.seek(toOffset: UInt64(at))
                try Self.pieces(from, count) { try to.write(contentsOf: $0) }
                try to.synchronize()
            }
        }
        try write("taken", Data("\(taken + 1)".utf8))
        taken += 1
        try? FileManager.default.removeItem(at: done)
    }

    /// Where bytes of the whole belong: a file, the place in it, how many.
    private static func segments(_ files: [BundleFile], _ first: Int, _ end: Int) -> [(BundleFile, Int, Int)] {
        var at = 0
        var found: [(BundleFile, Int, Int)] = []
        for file in files {
            let from = max(first, at)
            let to = min(end, at + file.bytes)
            if from < to { found.append((file, from - at, to - from)) }
            at += file.bytes
        }
        return found
    }

    /// Whether the manifest is complete, and if `signed` the signature, so that they can be checked before the rest.
    func hasOpening(signed: Bool) -> Bool { takenBytes >= list?.openingBytes(signed: signed) ?? 0 }

    /// The manifest is the one of the digest, and lists what the list of parts does; if `signed` the signature holds.
    func checkOpening(signed: Bool) throws {
        if signed { try checkSignature() }
        try checkManifest()
    }

    /// The holder of the app's key signed what the list of parts names, and it fits the app.
    private func checkSignature() throws {
        do {
            let signed = try SignatureFile.read(bundle)
            let listed = (list?.files ?? []).filter { $0.path != SignatureFile.name }.map { ($0.path, $0.sha256) }
            if signed.files != Dictionary(listed, uniquingKeysWith: { first, _ in first }) {
                throw SignedBundle.differs("\(PartsList.name) names other files than the signature")
            }
            try SignedBundle.checkFit(bundle, signed)
        } catch {
            try clear()
            throw error
        }
    }

    private func checkManifest() throws {
        guard let list else { return }
        let text = try Self.storing { try Data(contentsOf: bundle.appending(path: "manifest.json")) }
        guard let manifest = String(data: text, encoding: .utf8) else { try refuse("the manifest is not UTF-8 text") }
        let bare = manifest.replacingOccurrences(of: list.digest, with: "")
        if BundleCheck.hex(SHA256.hash(data: Data(bare.utf8))) != list.digest { try refuse("the manifest's digest differs") }
        guard let named = try? JSONDecoder().decode(ListedFiles.self, from: text) else {
            try refuse("the manifest cannot be read")
        }
        let listed = list.files.dropFirst().filter { $0.path != SignatureFile.name }
        let wanted = named.files.map { BundleFile(path: $0.path, bytes: $0.bytes, sha256: $0.sha256) }
        if Set(listed) != Set(wanted) { try refuse("the manifest lists other files than \(PartsList.name)") }
    }

    private struct ListedFiles: Decodable {
        let files: [File]

        struct File: Decodable {
            let path: String
            let bytes: Int
            let sha256: String
        }
    }

    /// Hash every file as it lies on the disk.
    func checkFiles() throws {
        for file in list?.files ?? [] {
            var hash = SHA256()
            var bytes = 0
            try Self.storing {
                // The empty ones, which no part brings, are made here.
                let from = try Self.writable(bundle.appending(path: file.path))
                defer { try? from.close() }
                try Self.pieces(from, Int.max) { piece in
                    if Task.isCancelled { throw CancellationError() }
                    hash.update(data: piece)
                    bytes += piece.count
                }
            }
            if bytes != file.bytes || BundleCheck.hex(hash.finalize()) != file.sha256 {
                try refuse("\(file.path) is not what is listed")
            }
        }
    }

    /// The bundle gets its name, in one step.
    func finish() throws {
        try Self.storing {
            var folder = bundle
            var values = URLResourceValues()
            values.isExcludedFromBackup = true
            try? folder.setResourceValues(values)
            try FileManager.default.moveItem(at: bundle, to: target)
        }
        try? FileManager.default.removeItem(at: work)
    }

    /// Forget everything that has arrived, and say why.
    private func refuse(_ why: String) throws -> Never {
        try clear()
        throw EdgecError.downloadRefused(why)
    }

    private func clear() throws {
        for old in try entries() where old.lastPathComponent != "lock" {
            try Self.storing { try FileManager.default.removeItem(at: old) }
        }
        try Self.storing { try FileManager.default.createDirectory(at: bundle, withIntermediateDirectories: true) }
        taken = 0
    }

    private func entries() throws -> [URL] {
        try Self.storing {
            try FileManager.default.contentsOfDirectory(atPath: work.path).map { work.appending(path: $0) }
        }
    }

    private func write(_ name: String, _ content: Data) throws {
        try Self.storing { try content.write(to: work.appending(path: name), options: .atomic) }
    }

    /// A file to read and write, made where it is missing.
    static func writable(_ file: URL) throws -> FileHandle {
        if !FileManager.default.fileExists(atPath: file.path) {
            try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data().write(to: file)
        }
        return try FileHandle(forUpdating: file)
    }

    /// Read up to `count` bytes in pieces.
    static func pieces(_ from: FileHandle, _ count: Int, _ take: (Data) throws -> Void) throws {
        var rest = count
        var isMore = true
        while isMore && rest > 0 {
            // Without its own autorelease pool every piece would stay in memory until the call ends.
            isMore = try autoreleasepool { () throws -> Bool in
                guard let piece = try from.read(upToCount: min(rest, 1 << 20)), !piece.isEmpty else { return false }
                rest -= piece.count
                try take(piece)
                return true
            }
        }
    }

    /// What the disk refuses is not tried again.
    static func storing<Value>(_ write: () throws -> Value) throws -> Value {
        do {
            return try write()
        } catch let error where error is EdgecError || error is CancellationError {
            throw error
        } catch {
            throw EdgecError.storageFailed(error.localizedDescription)
        }
    }
}
