import CryptoKit
import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What went wrong on the way, and may go right the next time.
struct Hiccup: Error {
    let why: String
}

/// The file of one part: what has arrived, and its hash so far.
final class PartFile {
    private let part: Part
    private let handle: FileHandle
    private var hash = SHA256()
    private(set) var bytes = 0

    init(_ part: Part, _ file: URL) throws {
        self.part = part
        handle = try DownloadFolder.storing { try DownloadFolder.writable(file) }
        // What an earlier start of the app left is hashed again.
        try DownloadFolder.storing { try DownloadFolder.pieces(handle, Int.max) { count($0) } }
        if bytes > part.bytes { try restart() }
    }

    deinit { try? handle.close() }

    private func count(_ piece: Data) {
        hash.update(data: piece)
        bytes += piece.count
    }

    /// Write what belongs to the part; whatever comes after its end is left out.
    func write(_ data: Data) throws {
        let piece = data.prefix(missing)
        try DownloadFolder.storing { try handle.write(contentsOf: piece) }
        count(piece)
    }

    func restart() throws {
        try DownloadFolder.storing {
            try handle.truncate(atOffset: 0)
            try handle.seek(toOffset: 0)
        }
        hash = SHA256()
        bytes = 0
    }

    var missing: Int { part.bytes - bytes }

    /// Whether a complete part is the listed one; otherwise nothing of it is kept.
    func matches() throws -> Bool {
        if BundleCheck.hex(hash.finalize()) == part.sha256 {
            try DownloadFolder.storing { try handle.synchronize() }
            return true
        }
        try restart()
        return false
    }
}

/// Fetches files from beside the list of parts, over connections that may be cut at any byte.
struct PartFetch {
    let base: URL
    let options: DownloadOptions

    /// The list's text; it is small, so each try begins anew.
    func list() async throws -> Data {
        var failures = 0
        while true {
            do {
                return try await listOnce()
            } catch let error as Hiccup {
                failures += 1
                try await pause(PartsList.name, failures, error)
            }
        }
    }

    private func listOnce() async throws -> Data {
        let text = Collected()
        try await connected(PartsList.name, 0) { response in
            if response.statusCode != 200 { throw Hiccup(why: "HTTP \(response.statusCode)") }
        } take: { data in
            text.data.append(data)
            if text.data.count > PartsList.maxBytes {
                throw EdgecError.downloadRefused("\(PartsList.name) is too large")
            }
            return true
        }
        return text.data
    }

    private final class Collected {
        var data = Data()
    }

    /// Fetch what `file` lacks of a part; returns once its sha256 is right. `tell` takes the bytes that have arrived.
    func part(_ part: Part, _ file: URL, _ tell: @escaping @Sendable (Int) -> Void) async throws {
        let arrived = try PartFile(part, file)
        var wrong = 0
        while true {
            try await complete(part, arrived, tell)
            if try arrived.matches() { return }
            wrong += 1
            if wrong > options.refetches {
                throw EdgecError.downloadRefused("\(part.name) came \(wrong) times with another sha256 than is listed")
            }
        }
    }

    /// Try until all bytes are there; a try that gets further than all before it counts as a success.
    private func complete(_ part: Part, _ arrived: PartFile, _ tell: @escaping @Sendable (Int) -> Void) async throws {
        var furthest = arrived.bytes
        var failures = 0
        while arrived.missing > 0 {
            do {
                try await read(part, arrived, tell)
            } catch let error as Hiccup {
                failures = arrived.bytes > furthest ? 0 : failures + 1
                furthest = max(furthest, arrived.bytes)
                try await pause(part.name, failures, error)
            }
        }
    }

    private func read(_ part: Part, _ arrived: PartFile, _ tell: @escaping @Sendable (Int) -> Void) async throws {
        try await connected(part.name, arrived.bytes) { response in
            try Self.agree(response, part, arrived)
        } take: { data in
            try arrived.write(data)
            tell(arrived.bytes)
            return arrived.missing > 0
        }
        if arrived.missing > 0 { throw Hiccup(why: "the answer ended early") }
    }

    /// The answer begins where the file ends, or the file begins anew.
    private static func agree(_ response: HTTPURLResponse, _ part: Part, _ arrived: PartFile) throws {
        let isWhole = response.statusCode == 200
        if isWhole && arrived.bytes > 0 || response.statusCode == 416 { try arrived.restart() }
        if isWhole { return }
        if response.statusCode != 206 { throw Hiccup(why: "HTTP \(response.statusCode)") }
        let range = response.value(forHTTPHeaderField: "Content-Range") ?? ""
        let words = range.split(whereSeparator: { " -/".contains($0) })
        guard words.count == 4, words[0] == "bytes", words[1] == "\(arrived.bytes)" else {
            throw Hiccup(why: "the answer holds other bytes than were asked for")
        }
        if words[3] != "*" && words[3] != "\(part.bytes)" { throw Hiccup(why: "the server's file has another size") }
    }

    /// One request; what may pass is a `Hiccup`.
    private func connected(
        _ name: String, _ first: Int, answered: @escaping (HTTPURLResponse) throws -> Void,
        take: @escaping (Data) throws -> Bool
    ) async throws {
        guard let url = beside(name), isAllowed(url) else {
            throw EdgecError.downloadRefused("\(base) is not https (http is for this device alone, or with allowHTTP)")
        }
        var request = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData, timeoutInterval: options.timeout)
        // Compressed on the way, bytes could not be counted.
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        if first > 0 { request.setValue("bytes=\(first)-", forHTTPHeaderField: "Range") }
        let one = PartRequest(isAllowed: isAllowed, take: take) { response in
            let code = response.statusCode
            let passes = [408, 416, 425, 429].contains(code)
            if 300...499 ~= code && !passes { throw EdgecError.downloadFailed(file: name, why: "HTTP \(code)") }
            try answered(response)
        }
        try await one.run(request, timeout: options.timeout)
    }

    private func isAllowed(_ url: URL) -> Bool {
        switch url.scheme?.lowercased() {
        case "https": return true
        case "http": return options.allowHTTP || Self.isLoopback(url.host ?? "")
        default: return false
        }
    }

    private static func isLoopback(_ host: String) -> Bool {
        if ["localhost", "::1", "[::1]"].contains(host.lowercased()) { return true }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
    }

    /// A file beside the list; a query, such as a signature of the address, stays.
    private func beside(_ name: String) -> URL? {
        guard var parts = URLComponents(url: base, resolvingAgainstBaseURL: true) else { return nil }
        var path = parts.percentEncodedPath
        if path.hasSuffix("/\(PartsList.name)") { path.removeLast(PartsList.name.count + 1) }
        while path.hasSuffix("/") { path.removeLast() }
        parts.percentEncodedPath = "\(path)/\(name)"
        return parts.url
    }

    private func pause(_ name: String, _ failures: Int, _ error: Hiccup) async throws {
        try Task.checkCancellation()
        if failures >= options.attempts {
            throw EdgecError.downloadFailed(file: name, why: "\(error.why), \(failures) times in a row")
        }
        let seconds = min(options.retryDelay * Double(1 << min(failures, 10)), 30)
        try await Task.sleep(nanoseconds: UInt64(seconds * 1e9))
    }
}

/// One request, whose bytes go where they belong as they arrive.
///
/// The session calls it on one queue, one call after another; nothing else looks at what it holds until it has ended.
private final class PartRequest: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private static let maxRedirects = 5
    private let isAllowed: (URL) -> Bool
    private let take: (Data) throws -> Bool
    private let answered: (HTTPURLResponse) throws -> Void
    private var continuation: CheckedContinuation<Void, any Error>?
    private var failure: (any Error)?
    private var isEnough = false
    private var redirects = 0

    init(
        isAllowed: @escaping (URL) -> Bool, take: @escaping (Data) throws -> Bool,
        answered: @escaping (HTTPURLResponse) throws -> Void
    ) {
        self.isAllowed = isAllowed
        self.take = take
        self.answered = answered
    }

    func run(_ request: URLRequest, timeout: TimeInterval) async throws {
        try Task.checkCancellation()
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        let session = URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
        defer { session.finishTasksAndInvalidate() }
        let task = session.dataTask(with: request)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                self.continuation = continuation
                task.resume()
            }
        } onCancel: {
            task.cancel()
        }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        redirects += 1
        // Linux takes a scheme that it does not know for a part of the path.
        let location = response.value(forHTTPHeaderField: "Location").flatMap(URL.init(string:))
        guard let from = task.currentRequest?.url ?? response.url, let to = request.url, isAllowed(to),
            location?.scheme == nil || location?.scheme?.lowercased() == to.scheme?.lowercased(),
            to.scheme?.lowercased() == "https" || from.scheme?.lowercased() == "http"
        else {
            let refused = EdgecError.downloadRefused("a redirect to \((location ?? request.url)?.absoluteString ?? "nowhere")")
            return stop(task, refused, completionHandler)
        }
        if redirects > Self.maxRedirects {
            return stop(task, Hiccup(why: "more than \(Self.maxRedirects) redirects"), completionHandler)
        }
        var next = request
        for name in ["Range", "Accept-Encoding"] {
            next.setValue(task.originalRequest?.value(forHTTPHeaderField: name), forHTTPHeaderField: name)
        }
        completionHandler(next)
    }

    private func stop(_ task: URLSessionTask, _ error: any Error, _ completionHandler: (URLRequest?) -> Void) {
        failure = error
        completionHandler(nil)
        task.cancel()
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        do {
            guard failure == nil, let http = response as? HTTPURLResponse else { throw Hiccup(why: "no answer of HTTP") }
            try answered(http)
            completionHandler(.allow)
        } catch {
            failure = failure ?? error
            completionHandler(.cancel)
        }
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        if failure != nil || isEnough { return }
        do {
            isEnough = try !take(data)
        } catch {
            failure = error
        }
        if failure != nil || isEnough { dataTask.cancel() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let ended = continuation
        continuation = nil
        if let failure {
            ended?.resume(throwing: failure)
        } else if let error, !isEnough {
            ended?.resume(throwing: Hiccup(why: error.localizedDescription))
        } else {
            ended?.resume()
        }
    }
}
