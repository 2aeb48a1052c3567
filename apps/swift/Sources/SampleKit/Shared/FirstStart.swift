import Foundation

/// A bundle that was checked.
struct CheckedBundle: Sendable {
    let folder: URL
    /// What the bundle is known by on this device.
    var key = ModelFacts.digest
    var neededBytes = ModelFacts.neededBytes
    /// The sha256 of the files, by their paths.
    var listed = Dictionary(uniqueKeysWithValues: ModelFacts.files.map { ($0.path, $0.sha256) })

    /// The sha256 of the artifact; empty where it is a folder.
    var artifactSHA256: String { listed[ModelFacts.artifact] ?? "" }
    var artifact: URL { folder.appending(path: ModelFacts.artifact) }

    /// Whether a step was finished before, and over the same `what`.
    func isDone(_ step: String, _ what: Data = Data()) -> Bool {
        (try? Data(contentsOf: FirstStart.folder(key).appending(path: step))) == what
    }

    func finish(_ step: String, _ what: Data = Data()) throws {
        try what.write(to: FirstStart.folder(key).appending(path: step))
    }
}

/// Remembers what was checked before for a bundle on this device and this version of its system.
enum FirstStart {
    /// This package's folder for the bundle, device and system; folders of earlier ones are removed.
    static func folder(_ bundle: String = ModelFacts.digest) throws -> URL {
        let files = FileManager.default
        let own = try place()
        let key = "\(bundle)-\(system("hw.machine"))-\(system("kern.osversion"))"
        let folder = own.appending(path: key)
        if files.fileExists(atPath: folder.path) { return folder }
        for old in (try? files.contentsOfDirectory(at: own, includingPropertiesForKeys: nil)) ?? [] {
            if old.lastPathComponent != key { try? files.removeItem(at: old) }
        }
        try files.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    /// The parent folder, separate for each package of an app; its contents can be recreated and need no backup.
    private static func place() throws -> URL {
        let support = try FileManager.default.url(
            for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
        var own = support.appending(path: "edgec").appending(path: "SampleKit")
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        var values = URLResourceValues()
        values.isExcludedFromBackup = true
        try own.setResourceValues(values)
        return own
    }

    /// A fact about the device, for example kern.osversion: the system's build.
    private static func system(_ name: String) -> String {
        var size = 0
        sysctlbyname(name, nil, &size, nil, 0)
        var value = [UInt8](repeating: 0, count: size)
        sysctlbyname(name, &value, &size, nil, 0)
        return String(decoding: value.prefix { $0 != 0 }, as: UTF8.self)
    }
}
