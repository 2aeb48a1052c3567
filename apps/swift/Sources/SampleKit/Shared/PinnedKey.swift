import CryptoKit
import Foundation

/// The key of whoever signs this app's bundles, from `edgec embed --public-key`; without one the app loads its own alone.
enum PinnedKey {
    private static let facts: KeyPart = FactsFile.part("key")
    /// What a signature names its key by: the sha256 of the key's PEM text.
    static let sha256 = facts.sha256

    static var isPinned: Bool { !sha256.isEmpty }

    /// Whether a signature over `content` is by this key; the curve decides on the hash.
    static func hasSigned(_ content: Data, _ signature: Data) -> Bool {
        guard let bytes = Data(base64Encoded: facts.der) else { return false }
        switch facts.curve {
        case "P-256":
            guard let key = try? P256.Signing.PublicKey(derRepresentation: bytes),
                let found = try? P256.Signing.ECDSASignature(derRepresentation: signature)
            else { return false }
            return key.isValidSignature(found, for: content)
        case "P-384":
            guard let key = try? P384.Signing.PublicKey(derRepresentation: bytes),
                let found = try? P384.Signing.ECDSASignature(derRepresentation: signature)
            else { return false }
            return key.isValidSignature(found, for: content)
        case "P-521":
            guard let key = try? P521.Signing.PublicKey(derRepresentation: bytes),
                let found = try? P521.Signing.ECDSASignature(derRepresentation: signature)
            else { return false }
            return key.isValidSignature(found, for: content)
        default: return false
        }
    }
}

private struct KeyPart: Decodable {
    let sha256, der, curve: String
}
