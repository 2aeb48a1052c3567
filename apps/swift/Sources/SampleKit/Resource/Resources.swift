import Foundation

/// Finds the bundle among the resources of this package.
enum BundleLocation {
    static func find(_ given: URL?) async throws -> URL {
        if let given { return given }
        if let folder = Bundle.module.url(forResource: ModelFacts.bundleFolder, withExtension: nil) { return folder }
        throw EdgecError.bundleMissing("\(ModelFacts.bundleFolder) is not a resource of this package")
    }
}
