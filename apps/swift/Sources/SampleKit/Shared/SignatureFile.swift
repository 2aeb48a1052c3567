import CryptoKit
import Foundation

/// What the holder of the app's key signed: the sha256 of every file by its path; `sha256` is that of the list itself.
struct SignedFiles {
    let files: [String: String]
    let sha256: String
    /// Why the list contradicts itself; differing files are named before that.
    let fault: (any Error)?
}

/// Reads the signature of a bundle under limits, as `edgec verify` does: OpenSSF model signing 1.0, whole files, sha256.
///
/// What is signed is parsed only once the signature over it holds.
enum SignatureFile {
    static let name = "model.sig"
    private static let maxBytes = 16 << 20
    private static let maxDepth = 200
    private static let mediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
    private static let payloadType = "application/vnd.in-toto+json"

    static func read(_ folder: URL) throws -> SignedFiles {
        let file = try parse(bytes(folder.appending(path: name)))
        try file.require("mediaType", mediaType)
        let key = try file.field("verificationMaterial").field("publicKey").sha256("hint")
        let envelope = try file.field("dsseEnvelope")
        try envelope.require("payloadType", payloadType)
        let payload = try envelope.base64("payload")
        let signature = try envelope.one("signatures").base64("sig")
        if key != PinnedKey.sha256 {
            throw foreign("it names the key \(key.prefix(16))…, this app has \(PinnedKey.sha256.prefix(16))… (sha256)")
        }
        let opening = "DSSEv1 \(payloadType.utf8.count) \(payloadType) \(payload.count) "
        if !PinnedKey.hasSigned(Data(opening.utf8) + payload, signature) {
            throw foreign("the signature does not fit what is signed and the key")
        }
        let statement = try parse(payload)
        let files = try self.files(statement)
        return SignedFiles(files: files, sha256: BundleCheck.hex(SHA256.hash(data: payload)), fault: fault(statement))
    }

    private static func files(_ statement: JSONValue) throws -> [String: String] {
        try statement.require("_type", "https://in-toto.io/Statement/v1")
        try statement.require("predicateType", "https://model_signing/signature/v1.0")
        let predicate = try statement.field("predicate")
        try predicate.field("serialization").require("method", "files")
        try predicate.field("serialization").require("hash_type", "sha256")
        var found: [String: String] = [:]
        for resource in try predicate.list("resources") {
            try resource.require("algorithm", "sha256")
            let name = try resource.text("name")
            if let why = PartsList.pathFault(name) { throw unusable(why) }
            let digest = try resource.sha256("digest")
            if found.updateValue(digest, forKey: name) != nil { throw unusable("it names a file twice") }
        }
        return found
    }

    /// What `files` did not look at: the digest over the digests of all files, in their order.
    private static func fault(_ statement: JSONValue) -> (any Error)? {
        do {
            var all = SHA256()
            for resource in try statement.field("predicate").list("resources") {
                let digits = Array(try resource.sha256("digest"))
                all.update(data: stride(from: 0, to: 64, by: 2).map { UInt8(String(digits[$0...($0 + 1)]), radix: 16) ?? 0 })
            }
            let whole = try statement.one("subject").field("digest").sha256("sha256")
            if whole == BundleCheck.hex(all.finalize()) { return nil }
            return unusable("its digest over all files is inconsistent with theirs")
        } catch {
            return error
        }
    }

    private static func bytes(_ file: URL) throws -> Data {
        guard let facts = try? FileManager.default.attributesOfItem(atPath: file.path) else {
            throw EdgecError.signatureRefused(code: "E601", why: "there is no \(name) in it")
        }
        if facts[.type] as? FileAttributeType != .typeRegular { throw unusable("it is not a plain file") }
        if (facts[.size] as? NSNumber)?.intValue ?? Int.max > maxBytes {
            throw unusable("it is larger than \(maxBytes) bytes")
        }
        do { return try Data(contentsOf: file) } catch { throw unusable("it cannot be read, \(error)") }
    }

    private static func parse(_ raw: Data) throws -> JSONValue {
        // The parser would take UTF-16, too.
        if raw.contains(0) || String(data: raw, encoding: .utf8) == nil { throw unusable("it is not JSON in UTF-8") }
        try checkNesting(raw)
        do {
            return JSONValue(value: try JSONSerialization.jsonObject(with: raw))
        } catch {
            throw unusable("it is not JSON")
        }
    }

    /// Refuses nesting that could exhaust a stack, and what parsers differ about; brackets inside texts do not count.
    private static func checkNesting(_ raw: Data) throws {
        var depth = 0
        var isText = false
        var isEscaped = false
        for byte in raw {
            if isEscaped {
                isEscaped = false
            } else if isText {
                if byte < 32 { throw unusable("a text holds a control character") }
                isEscaped = byte == UInt8(ascii: "\\")
                isText = byte != UInt8(ascii: "\"")
            } else {
                switch byte {
                case UInt8(ascii: "\""): isText = true
                case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
                case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
                default: break
                }
                if depth > maxDepth { throw unusable("it is nested too deeply") }
            }
        }
    }

    private static func foreign(_ why: String) -> EdgecError { .signatureRefused(code: "E603", why: why) }

    fileprivate static func unusable(_ why: String) -> EdgecError {
        .signatureRefused(code: "E602", why: "\(name) cannot be used, \(why)")
    }
}

/// A value in JSON whose fields are asked for by name and kind.
private struct JSONValue {
    let value: Any

    func field(_ name: String) throws -> JSONValue {
        guard let found = (value as? [String: Any])?[name] else { throw SignatureFile.unusable("\(name) is missing") }
        return JSONValue(value: found)
    }

    func text(_ name: String) throws -> String {
        guard let text = try field(name).value as? String else { throw SignatureFile.unusable("\(name) is not a text") }
        return text
    }

    func list(_ name: String) throws -> [JSONValue] {
        guard let list = try field(name).value as? [Any] else { throw SignatureFile.unusable("\(name) is not a list") }
        return list.map { JSONValue(value: $0) }
    }

    func one(_ name: String) throws -> JSONValue {
        let found = try list(name)
        if found.count != 1 { throw SignatureFile.unusable("\(name) has \(found.count) entries instead of 1") }
        return found[0]
    }

    func require(_ name: String, _ known: String) throws {
        if try text(name) != known { throw SignatureFile.unusable("\(name) is not \(known)") }
    }

    func sha256(_ name: String) throws -> String {
        let found = try text(name)
        if !PartsList.isSHA256(found) { throw SignatureFile.unusable("\(name) is not a sha256") }
        return found
    }

    /// Bytes from base64 without gaps.
    func base64(_ name: String) throws -> Data {
        guard let bytes = Data(base64Encoded: try text(name)) else {
            throw SignatureFile.unusable("\(name) is not base64")
        }
        return bytes
    }
}
