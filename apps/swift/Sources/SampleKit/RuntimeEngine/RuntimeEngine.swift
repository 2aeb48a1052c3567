import SampleKitEngine
import Foundation

/// The artifact in edgec's engine, with ExecuTorch below it.
final class ModelRuntime: Runtime {
    private var sessions: [String: EngineSession] = [:]
    private var structures: [URL: EngineSchema] = [:]
    let bundle: CheckedBundle

    init(_ bundle: CheckedBundle) async throws {
        self.bundle = bundle
        SampleKit_register_standard_operators()
        for method in ModelFacts.openedMethods { sessions[method.name] = try EngineSession(bundle.artifact, method.name) }
    }

    func run(
        _ method: MethodFacts, _ inputs: [InputTensor], isolation: isolated (any Actor)?
    ) async throws -> [[Float]] {
        let outputs = try session(method).run(inputs)
        if outputs.count != method.outputs.count {
            throw EdgecError.runtimeDiffers("\(method.name) has \(outputs.count) outputs")
        }
        return outputs
    }

    func session(_ method: MethodFacts) throws -> EngineSession {
        guard let session = sessions[method.name] else {
            throw EdgecError.runtimeDiffers("there is no method \(method.name)")
        }
        return session
    }

    func useAdapter(_ file: URL?) throws {
        do {
            for session in sessions.values { try session.useAdapter(file, bundle.artifactSHA256) }
        } catch EdgecError.engineFailed(let why) {
            throw EdgecError.adapterRefused(why)
        }
    }

    func holdTo(schema name: String, budget: Int) throws -> any ConstrainedText {
        let folder = bundle.folder.appending(path: "schemas")
        let grammar = folder.appending(path: "\(name).grammar")
        if !FileManager.default.fileExists(atPath: grammar.path) {
            throw EdgecError.schemaRefused("the bundle has no schema \(name)")
        }
        do {
            return try opened(grammar, folder.appending(path: "vocabulary.bin")).begin(budget)
        } catch EdgecError.engineFailed(let why) {
            throw EdgecError.schemaRefused(why)
        }
    }

    func holdTo(calls structure: CallStructure) throws -> any ConstrainedText {
        do {
            // Such a text is never closed: a call that is cut short is an error, never one with arguments made up.
            return try opened(structure.grammar, structure.vocabulary).begin(Int(Int32.max))
        } catch EdgecError.engineFailed(let why) {
            throw EdgecError.toolChoiceRefused(why)
        }
    }

    private func opened(_ grammar: URL, _ vocabulary: URL) throws -> EngineSchema {
        let structure = try structures[grammar] ?? EngineSchema(grammar.path, vocabulary.path)
        structures[grammar] = structure
        return structure
    }
}

/// One method of the artifact: its model and its only session, closed with this object.
final class EngineSession {
    private let model: OpaquePointer
    let session: OpaquePointer

    init(_ artifact: URL, _ method: String) throws {
        model = try EngineCall.opened { SampleKit_model_open(artifact.path, method, nil, $0, $1) }
        do {
            session = try EngineCall.opened { [model] in SampleKit_session_open(model, 0, $0, $1) }
        } catch {
            SampleKit_model_close(model)
            throw error
        }
    }

    deinit {
        SampleKit_session_close(session)
        SampleKit_model_close(model)
    }

    /// Add an adapter's file, made for the artifact with the sha256 `base`, or none.
    func useAdapter(_ file: URL?, _ base: String) throws {
        // The session keeps it.
        var adapter: OpaquePointer?
        defer { SampleKit_adapter_close(adapter) }
        if let path = file?.path {
            adapter = try EngineCall.opened { [model] in SampleKit_adapter_read(model, path, base, $0, $1) }
        }
        let added = adapter
        try EngineCall.checked { SampleKit_session_adapter(session, added, $0, $1) }
    }

    /// Execute the method; outputs are numbers in row order.
    func run(_ inputs: [InputTensor]) throws -> [[Float]] {
        let buffers = try inputs.map { try EngineBuffer($0) }
        let tensors = buffers.map(\.tensor)
        try withExtendedLifetime(buffers) {
            try EngineCall.checked { SampleKit_session_run(session, tensors, tensors.count, $0, $1) }
        }
        return try (0..<SampleKit_session_output_count(session)).map { try output($0) }
    }

    /// The numbers of an output of the last call, in row order.
    func output(_ index: Int) throws -> [Float] {
        var tensor = EdgecTensor()
        guard SampleKit_session_output(session, index, &tensor) == 0, let data = tensor.data else {
            throw EdgecError.engineFailed("it gave no output \(index)")
        }
        let rank = Int(tensor.rank)
        let count = withUnsafeBytes(of: tensor.sizes) { bytes in
            bytes.bindMemory(to: Int64.self).prefix(rank).reduce(1) { $0 * Int($1) }
        }
        switch tensor.dtype {
        case EngineType.float32:
            return Array(UnsafeBufferPointer(start: data.assumingMemoryBound(to: Float.self), count: count))
        case EngineType.float16:
            let numbers = UnsafeBufferPointer(start: data.assumingMemoryBound(to: UInt16.self), count: count)
            return numbers.map { Float(Float16(bitPattern: $0)) }
        default: throw EdgecError.engineFailed("the output \(index) has the type \(tensor.dtype)")
        }
    }
}

/// The engine's numbers for element types, which are ExecuTorch's.
private enum EngineType {
    static let int32: Int32 = 3
    static let int64: Int32 = 4
    static let float16: Int32 = 5
    static let float32: Int32 = 6
    static let bool: Int32 = 11
}

/// An input's values in memory, as the engine reads them.
private final class EngineBuffer {
    private(set) var tensor = EdgecTensor()
    private let bytes: UnsafeMutableRawBufferPointer

    init(_ input: InputTensor) throws {
        let copied: (Int32, UnsafeMutableRawBufferPointer)
        switch (input.values, input.dtype) {
        case (.integers(let numbers), "int64"): copied = (EngineType.int64, Self.copy(numbers.map { Int64($0) }))
        case (.integers(let numbers), "int32"): copied = (EngineType.int32, Self.copy(numbers.map { Int32($0) }))
        case (.integers(let numbers), "bool"): copied = (EngineType.bool, Self.copy(numbers.map { $0 != 0 }))
        case (.floats(let numbers), "float32"): copied = (EngineType.float32, Self.copy(numbers))
        case (.held(let buffer), _):
            copied = (buffer.isHalf ? EngineType.float16 : EngineType.float32, Self.copy(Array(buffer.memory)))
        default:
            throw EdgecError.inputDoesNotFit(name: input.name, why: "values of \(input.dtype) are not supported")
        }
        bytes = copied.1
        if input.shape.count > Int(EDGEC_MAX_RANK) {
            bytes.deallocate()
            throw EdgecError.inputDoesNotFit(name: input.name, why: "it has \(input.shape.count) dimensions")
        }
        tensor.data = bytes.baseAddress
        tensor.dtype = copied.0
        tensor.rank = Int32(input.shape.count)
        withUnsafeMutableBytes(of: &tensor.sizes) { $0.copyBytes(from: Self.sizes(input.shape)) }
    }

    deinit { bytes.deallocate() }

    private static func copy<Number>(_ numbers: [Number]) -> UnsafeMutableRawBufferPointer {
        numbers.withUnsafeBytes { from in
            let to = UnsafeMutableRawBufferPointer.allocate(byteCount: from.count, alignment: 16)
            to.copyMemory(from: from)
            return to
        }
    }

    private static func sizes(_ shape: [Int]) -> [UInt8] {
        shape.map { Int64($0) }.withUnsafeBytes { Array($0) }
    }
}
