import Foundation

/// The facts in the bundle's manifest about the model and its files.
public enum ModelFacts {
    private static let facts: ModelPart = FactsFile.part("model")
    /// The bundle's name.
    public static let name = facts.name
    /// sha256 of the manifest; the manifest lists every other file with its own.
    public static let digest = facts.digest
    /// Recipe and target of the export.
    public static let recipe = facts.recipe
    public static let target = facts.target
    /// The source model with its revision, and its number of parameters.
    public static let model = facts.model
    public static let parameters = facts.parameters
    /// Format of the artifact (pte, mlpackage or aimodel), its path in the bundle and its size in bytes.
    public static let format = facts.format
    public static let artifact = facts.artifact
    public static let artifactBytes = facts.artifactBytes
    /// Runtime and version that the artifact was made for.
    public static let runtime = facts.runtime
    public static let runtimeVersion = facts.runtimeVersion
    /// The oldest system that can load the artifact.
    public static let minimumOS = OperatingSystemVersion(
        majorVersion: facts.minimumOS[0], minorVersion: facts.minimumOS[1], patchVersion: 0)
    /// Bytes that weights and states take once loaded; estimated from the manifest, the app itself not included.
    public static let neededBytes = facts.neededBytes
    /// Whether conversations can be rendered; if not, there is only `generate(prompt:)`.
    public static let hasChatTemplate = facts.hasChatTemplate
    /// How often the weights lie in memory.
    static let weightCopies = facts.weightCopies
    /// Identifier of the asset pack that holds the bundle; nil where it is a resource of this package.
    static let assetPack = facts.assetPack
    /// Name of the bundle's folder.
    public static let bundleFolder = facts.bundleFolder
    static let files = facts.files
    static let methods = facts.methods
    /// The methods that the runtime opens.
    static let openedMethods = facts.methods.suffix(facts.openedMethods)
    /// The processor of the export's target: npu, gpu or cpu.
    static let unit = facts.unit
    /// The largest size of an input that varies.
    static let largestSize = facts.largestSize
    /// The names of the adapters that the artifact has functions for.
    public static let adapters = facts.adapters
}

private struct ModelPart: Decodable {
    let name, digest, recipe, target, model, format, artifact, runtime, runtimeVersion, bundleFolder, unit: String
    let parameters, artifactBytes, neededBytes, weightCopies, openedMethods, largestSize: Int
    let hasChatTemplate: Bool
    let assetPack: String?
    let minimumOS: [Int]
    let adapters: [String]
    let files: [BundleFile]
    let methods: [MethodFacts]
}
