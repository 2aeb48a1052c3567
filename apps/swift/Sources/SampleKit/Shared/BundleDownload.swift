import Foundation

/// How a bundle is downloaded.
public struct DownloadOptions: Sendable {
    /// http is allowed to other devices, too; what arrives is checked either way, who else reads it is not.
    public var allowHTTP: Bool
    /// How often a file may fail in a row without one new byte.
    public var attempts: Int
    /// How often a part whose sha256 is wrong is fetched again.
    public var refetches: Int
    /// The longest wait for the next bytes, seconds.
    public var timeout: TimeInterval
    /// The wait after a failure, seconds; doubled with each one in a row, up to 30.
    public var retryDelay: TimeInterval

    public init(
        allowHTTP: Bool = false, attempts: Int = 8, refetches: Int = 3, timeout: TimeInterval = 30,
        retryDelay: TimeInterval = 0.5
    ) {
        self.allowHTTP = allowHTTP
        self.attempts = attempts
        self.refetches = refetches
        self.timeout = timeout
        self.retryDelay = retryDelay
    }
}

/// How far a download is, in bytes of the bundle; what an earlier call left counts.
public struct DownloadProgress: Sendable, Equatable {
    public let bytes: Int
    public let of: Int
}

/// Downloads a bundle that `edgec split` cut into parts; load it with `LoadOptions(bundle: folder)`.
///
/// Nothing whose sha256 is wrong gets into the folder, and the folder appears when it is complete. A download that is
/// cut, cancelled or ended with the app goes on where it was with the next call. The disk holds the bundle and one part
/// at most.
public struct BundleDownload: Sendable {
    private let url: URL
    private let folder: URL
    private let digest: String?
    private let options: DownloadOptions

    /// - Parameters:
    ///   - url: the folder of parts, or its `parts.json`; https, or http to this device.
    ///   - folder: what the bundle becomes, for instance in Application Support; it is excluded from backups.
    ///   - digest: the manifest's that the bundle must have; nil takes whatever the server calls a bundle. With a pinned key
    ///     (`edgec embed --public-key`) and this package's digest, any bundle is taken that its holder signed and that fits.
    ///   - options: limits and waits.
    public init(
        _ url: URL, to folder: URL, digest: String? = ModelFacts.digest, options: DownloadOptions = DownloadOptions()
    ) {
        self.url = url
        self.folder = folder
        self.digest = digest
        self.options = options
    }

    /// Download what is missing, and give the folder; `progress` is called on no particular thread.
    @discardableResult
    public func download(_ progress: (@Sendable (DownloadProgress) -> Void)? = nil) async throws -> URL {
        if FileManager.default.fileExists(atPath: folder.path) {
            try checkExisting()
        } else {
            try await fill(DownloadFolder(folder), progress ?? { _ in })
        }
        return folder
    }

    /// A folder has its name only once it is complete, so its manifest says which bundle it is.
    private func checkExisting() throws {
        guard let text = try? String(contentsOf: folder.appending(path: "manifest.json"), encoding: .utf8) else {
            throw EdgecError.downloadRefused("\(folder.path) exists and is not a bundle")
        }
        guard let digest, !text.contains(digest) else { return }
        if !takesSigned { throw EdgecError.downloadRefused("\(folder.path) holds another bundle") }
        try SignedBundle.checkFit(folder, SignatureFile.read(folder))
    }

    /// Whether another bundle than the package's will do, if the holder of the app's key signed it.
    private var takesSigned: Bool { PinnedKey.isPinned && digest == ModelFacts.digest }

    private func fill(_ place: DownloadFolder, _ tell: @escaping @Sendable (DownloadProgress) -> Void) async throws {
        let fetch = PartFetch(base: url, options: options)
        let text = try await fetch.list()
        let list = try PartsList(text)
        var isOther = false
        if let digest, digest != list.digest {
            if !takesSigned { throw EdgecError.downloadRefused("its digest is \(list.digest), not \(digest)") }
            try list.requireSignature()
            isOther = true
        }
        try place.resume(text, list)
        try place.checkSpace()
        var isChecked = false
        while place.taken < list.parts.count {
            let before = place.takenBytes
            try await fetch.part(list.parts[place.taken], place.part) { bytes in
                tell(DownloadProgress(bytes: before + bytes, of: list.bytes))
            }
            try Task.checkCancellation()
            try place.take()
            // Manifest and signature come first, so that a wrong bundle does not come whole.
            if !isChecked && place.hasOpening(signed: isOther) {
                try place.checkOpening(signed: isOther)
                isChecked = true
            }
        }
        if !isChecked { try place.checkOpening(signed: isOther) }
        try place.checkFiles()
        try place.finish()
        tell(DownloadProgress(bytes: list.bytes, of: list.bytes))
    }
}
