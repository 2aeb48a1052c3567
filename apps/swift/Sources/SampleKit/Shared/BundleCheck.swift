import CryptoKit
import Foundation

/// A file of the bundle as the manifest lists it.
struct BundleFile: Hashable, Decodable {
    let path: String
    let bytes: Int
    let sha256: String
}

/// Checks that the app's files are the ones that were exported, or others that the holder of its pinned key signed.
enum BundleCheck {
    /// Check system, manifest and sizes; also every file's sha256, once per bundle and system unless `always`.
    static func run(
        _ folder: URL, isGiven: Bool, always: Bool, _ tell: (LoadStep) -> Void
    ) throws -> CheckedBundle {
        try checkSystem()
        if isGiven && PinnedKey.isPinned && !isOwn(folder) {
            return try SignedBundle(folder: folder).check(always: always, tell)
        }
        let bundle = CheckedBundle(folder: folder)
        try checkManifest(folder)
        for file in ModelFacts.files { try checkSize(file, folder) }
        if always || !bundle.isDone("files") {
            let all = ModelFacts.files.reduce(0) { $0 + $1.bytes }
            var done = 0
            for file in ModelFacts.files {
                let found = try sha256(folder.appending(path: file.path)) { bytes in
                    done += bytes
                    tell(.checking(bytes: done, of: all))
                }
                if found != file.sha256 {
                    throw EdgecError.bundleAltered(file: file.path, why: "its sha256 differs")
                }
            }
            try bundle.finish("files")
        }
        return bundle
    }

    /// Whether a folder has the manifest that the app was made with; no other file is looked at.
    private static func isOwn(_ folder: URL) -> Bool {
        let facts = try? FileManager.default.attributesOfItem(atPath: folder.appending(path: "manifest.json").path)
        guard facts?[.type] as? FileAttributeType == .typeRegular, let size = (facts?[.size] as? NSNumber)?.intValue,
            size <= PartsList.maxManifestBytes
        else { return false }
        return (try? checkManifest(folder)) != nil
    }

    private static func checkSystem() throws {
        if ProcessInfo.processInfo.isOperatingSystemAtLeast(ModelFacts.minimumOS) { return }
        let needed = ModelFacts.minimumOS
        throw EdgecError.systemTooOld(
            needed: "\(needed.majorVersion).\(needed.minorVersion)",
            found: ProcessInfo.processInfo.operatingSystemVersionString)
    }

    /// The digest is the sha256 of the manifest's text with the digest itself left empty.
    private static func checkManifest(_ folder: URL) throws {
        let text = try contents("manifest.json", folder)
        guard let manifest = String(data: text, encoding: .utf8) else {
            throw EdgecError.bundleAltered(file: "manifest.json", why: "it is not UTF-8 text")
        }
        let bare = manifest.replacingOccurrences(of: ModelFacts.digest, with: "")
        if hex(SHA256.hash(data: Data(bare.utf8))) != ModelFacts.digest {
            throw EdgecError.bundleAltered(file: "manifest.json", why: "its digest differs")
        }
    }

    private static func contents(_ name: String, _ folder: URL) throws -> Data {
        do {
            return try Data(contentsOf: folder.appending(path: name), options: .mappedIfSafe)
        } catch {
            throw EdgecError.bundleMissing("\(name), \(error.localizedDescription)")
        }
    }

    private static func checkSize(_ file: BundleFile, _ folder: URL) throws {
        let url = folder.appending(path: file.path)
        guard let size = try? url.resourceValues(forKeys: [.fileSizeKey]).fileSize else {
            throw EdgecError.bundleMissing(file.path)
        }
        if size != file.bytes {
            throw EdgecError.bundleAltered(file: file.path, why: "\(size) bytes instead of \(file.bytes)")
        }
    }

    /// The sha256 of a file, read in pieces whose sizes `hashed` gets.
    static func sha256(_ file: URL, _ hashed: (Int) -> Void) throws -> String {
        let handle = try FileHandle(forReadingFrom: file)
        defer { try? handle.close() }
        var hash = SHA256()
        var isMore = true
        while isMore {
            // Without its own autorelease pool every piece would stay in memory until the call ends.
            isMore = try autoreleasepool { () throws -> Bool in
                guard let piece = try handle.read(upToCount: 1 << 20), !piece.isEmpty else { return false }
                hash.update(data: piece)
                hashed(piece.count)
                return true
            }
        }
        return hex(hash.finalize())
    }

    static func hex(_ digest: SHA256.Digest) -> String {
        digest.map { String(format: "%02x", $0) }.joined()
    }
}
