// swift-tools-version: 6.0
import PackageDescription

// Of the model: `edgec embed` writes these.
let name = "SampleKit"
let minimumOS = "17.0"
let resources = ["facts.json"]
// swift-transformers reads the bundle's tokenizer.
let readsTexts = true
// The branch of ExecuTorch's package that executes the artifact, and what is linked of it; nil where the system does.
let executorch: String? = "swiftpm-1.5.0"
let linked = ["executorch", "kernels_optimized"]
// Where edgec's engine executes the artifact, the version of ExecuTorch below it.
let engine: String? = "1.5.1"
// Folders of edgec's engine in the package's C++ target; none where there is no such target. Its C functions and types
// have names of this package's own, since a linker accepts a name only once, and an app may hold several such packages.
let folders = ["core", "kernels"]
let renamed = [
    "edgec_abi_version",
    "edgec_threads",
    "edgec_has_operator",
    "edgec_linear_kernel",
    "edgec_linear_kernels",
    "edgec_packed_path",
    "edgec_model_open",
    "edgec_model_close",
    "edgec_model_info",
    "edgec_session_open",
    "edgec_session_close",
    "edgec_adapter_open",
    "edgec_adapter_read",
    "edgec_adapter_digest",
    "edgec_adapter_close",
    "edgec_session_adapter",
    "edgec_session_run",
    "edgec_session_forward",
    "edgec_model_embeds_width",
    "edgec_session_input_embeds",
    "edgec_session_call_size",
    "edgec_model_step",
    "edgec_session_output_count",
    "edgec_session_output",
    "edgec_session_state",
    "edgec_session_profile",
    "edgec_session_profile_reset",
    "edgec_structure_open",
    "edgec_structure_close",
    "edgec_structure_token",
    "edgec_text_open",
    "edgec_text_close",
    "edgec_text_mask",
    "edgec_text_take",
    "edgec_text_state",
    "edgec_register_standard_operators",
    "edgec",
    "EdgecAdapter",
    "EdgecAudioCalls",
    "EdgecAudioOptions",
    "EdgecAudioProgress",
    "EdgecAudioStatus",
    "EdgecAudioSummary",
    "EdgecImage",
    "EdgecImagePlaces",
    "EdgecImageTiles",
    "EdgecInputEmbeds",
    "EdgecLowRank",
    "EdgecModel",
    "EdgecModelInfo",
    "EdgecNumbers",
    "EdgecPacked",
    "EdgecPiece",
    "EdgecPieceKind",
    "EdgecReplyState",
    "EdgecRun",
    "EdgecSampling",
    "EdgecSegment",
    "EdgecSession",
    "EdgecSpecialTokens",
    "EdgecStatus",
    "EdgecString",
    "EdgecStructure",
    "EdgecTensor",
    "EdgecText",
    "EdgecTextState",
    "EdgecTextStatus",
    "EdgecThinkingNext",
    "EdgecThinkingPhase",
    "EdgecTimestamps",
    "EdgecToolCall",
    "EdgecVisionInfo",
    "EdgecVisionStatus",
    "EdgecVisionTimes",
]
// Folders of other kinds of models and other runtimes.
let excluded = [
    "AssetPack",
    "DecoderStatic",
    "Encoder",
    "EngineSpeech",
    "EngineVision",
    "Foundation",
    "GoldenFunctions",
    "Module",
    "RuntimeCoreAI",
    "RuntimeCoreML",
    "RuntimeExecuTorch",
    "Speech",
    "StaticSpeech",
    "StaticVision",
    "Vision",
    "VisionDecoder",
]

let cxx = "\(name)Engine"
let names: [CXXSetting] = renamed.map { .define($0, to: "\(name)_\($0.hasPrefix("edgec_") ? String($0.dropFirst(6)) : $0)") }
let products: [Target.Dependency] = linked.map { .product(name: $0, package: "executorch") }
let tokenizers: [Target.Dependency] = readsTexts ? [.product(name: "Transformers", package: "swift-transformers")] : []
let below: [Target.Dependency] = folders.isEmpty ? products : [.target(name: cxx)]
let overExecuTorch: [CXXSetting] = engine.map {
    [
        // Empty unless you put ExecuTorch's headers there: see README.md.
        .headerSearchPath("headers"),
        .headerSearchPath("headers/executorch/runtime/core/portable_type/c10"),
        .define("C10_USING_CUSTOM_GENERATED_MACROS", to: ""),
        .define("EDGEC_EXECUTORCH_VERSION", to: $0),
    ]
} ?? []

var dependencies: [Package.Dependency] = []
if let executorch {
    dependencies.append(.package(url: "https://github.com/pytorch/executorch.git", branch: executorch))
}
if readsTexts {
    dependencies.append(.package(url: "https://github.com/huggingface/swift-transformers.git", from: "1.3.0"))
}

var targets: [Target] = [
    .target(
        name: name,
        dependencies: below + tokenizers,
        exclude: excluded,
        resources: resources.map { .copy("Resources/\($0)") }
    )
]
if !folders.isEmpty {
    // Swift sees the C interface of edgec's engine, or of a part of it where the system executes the artifact.
    targets.append(
        .target(
            name: cxx,
            dependencies: products,
            sources: folders.map { "edgec/\($0)" },
            publicHeadersPath: "include",
            cxxSettings: [.headerSearchPath("edgec"), .headerSearchPath("edgec/include")] + overExecuTorch + names + [
                // At full speed in debug builds too. Multiply-adds are fused only where the source says so: a
                // compiler's choice may differ between one row and several.
                .unsafeFlags(["-O3", "-ffp-contract=off"])
            ]
        ))
}

let package = Package(
    name: name,
    platforms: [.iOS(minimumOS)],
    products: [.library(name: name, targets: [name])],
    dependencies: dependencies,
    targets: targets,
    swiftLanguageModes: [.v6],
    cxxLanguageStandard: .cxx17
)
