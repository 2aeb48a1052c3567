import Foundation

/// How a model is loaded.
public struct LoadOptions: Sendable {
    /// The bundle's folder, where it is neither a resource nor an asset pack of this package. With a pinned key
    /// (`edgec embed --public-key`) it may be another bundle that the key's holder signed and that fits this package.
    public var bundle: URL?
    /// Hash every file at every load, not only at the first.
    public var hashAlways: Bool
    /// Called with what `load` does, on no particular thread.
    public var progress: (@Sendable (LoadStep) -> Void)?

    public init(
        bundle: URL? = nil, hashAlways: Bool = false, progress: (@Sendable (LoadStep) -> Void)? = nil
    ) {
        self.bundle = bundle
        self.hashAlways = hashAlways
        self.progress = progress
    }
}

/// A loaded non-decoder model: arrays in row order go in and come out. Calls are answered one after another.
public actor EdgecModel: OneCallAtATime {
    let runtime: any Runtime
    let gate = CallGate()

    /// Find the bundle, check it, check the memory, load it; at the first start also replay its golden vectors.
    public static func load(_ options: LoadOptions = LoadOptions()) async throws -> EdgecModel {
        let tell = options.progress ?? { _ in }
        tell(.finding)
        let folder = try await BundleLocation.find(options.bundle)
        let bundle = try BundleCheck.run(folder, isGiven: options.bundle != nil, always: options.hashAlways, tell)
        try MemoryCheck.run(bundle.neededBytes)
        tell(.loading)
        let runtime = try await ModelRuntime(bundle)
        if !bundle.isDone("golden") {
            tell(.comparing)
            try await GoldenFunctions.check(folder, runtime)
            try bundle.finish("golden")
        }
        return EdgecModel(runtime)
    }

    private init(_ runtime: any Runtime) { self.runtime = runtime }
}
