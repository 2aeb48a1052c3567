import Foundation

/// A line for each download: address, folder, digest (`own`: the package's, `any`), bytes after which it is cancelled.
@main struct Main {
    static func main() async {
        while let line = readLine() {
            let words = line.components(separatedBy: "\t")
            let digest = words[2] == "own" ? ModelFacts.digest : words[2] == "any" ? nil : words[2]
            let options = DownloadOptions(attempts: 4, refetches: 2, timeout: 1.5, retryDelay: 0.002)
            guard let url = URL(string: words[0]) else {
                say("DownloadRefused\tno address")
                continue
            }
            let folder = URL(fileURLWithPath: words[1])
            let download = BundleDownload(url, to: folder, digest: digest, options: options)
            say(await outcome(download, stop: Int(words[3])))
        }
    }

    /// Swift's print keeps lines back where nobody sees a terminal.
    private static func say(_ line: String) {
        FileHandle.standardOutput.write(Data("\(line)\n".utf8))
    }

    private static func outcome(_ download: BundleDownload, stop: Int?) async -> String {
        let seen = Seen()
        let task = Task {
            defer { seen.end() }
            try await download.download { seen.set($0) }
        }
        if let stop, stop >= 0 {
            while !seen.hasEnded && seen.last.bytes < stop { try? await Task.sleep(nanoseconds: 1_000_000) }
            let hasEnded = seen.hasEnded
            task.cancel()
            _ = await task.result
            if !hasEnded { return "cancelled\t\(seen.last.bytes)" }
        }
        do {
            _ = try await task.value
            let last = seen.last
            return stop == nil ? "done\t\(last.bytes == last.of)" : "done\t\(last.bytes)"
        } catch {
            let name = "\(error)".prefix { $0.isLetter }
            return "\(name.prefix(1).uppercased())\(name.dropFirst())\t\(error)"
        }
    }
}

private final class Seen: @unchecked Sendable {
    private let lock = NSLock()
    private var progress = DownloadProgress(bytes: 0, of: -1)
    private var ended = false

    func set(_ progress: DownloadProgress) { lock.withLock { self.progress = progress } }
    func end() { lock.withLock { ended = true } }
    var last: DownloadProgress { lock.withLock { progress } }
    var hasEnded: Bool { lock.withLock { ended } }
}
