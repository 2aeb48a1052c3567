import BackgroundAssets
import Foundation
import System

/// Finds the bundle in an asset pack that the system downloads, because it is too large for a package's resource.
enum BundleLocation {
    static func find(_ given: URL?) async throws -> URL {
        if let given { return given }
        guard #available(iOS 26, macOS 26, *) else {
            throw EdgecError.bundleMissing("managed asset packs need iOS 26; give LoadOptions.bundle a folder")
        }
        guard let identifier = ModelFacts.assetPack else {
            throw EdgecError.bundleMissing("no asset pack is named")
        }
        let manager = AssetPackManager.shared
        let pack = try await manager.assetPack(withID: identifier)
        try await manager.ensureLocalAvailability(of: pack)
        return try manager.url(for: FilePath(ModelFacts.bundleFolder))
    }
}
