import ExecuTorch
import Foundation

/// The artifact in ExecuTorch; made for the version that `ModelFacts` states.
final class ModelRuntime: Runtime {
    private let module: Module
    /// The functions under an adapter that are loaded.
    private var added: [String] = []

    init(_ bundle: CheckedBundle) async throws {
        module = Module(filePath: bundle.artifact.path, loadMode: .mmap)
        try Self.check(module)
        for method in ModelFacts.methods { try module.load(method.name) }
    }

    func load(_ functions: [MethodFacts], isolation: isolated (any Actor)?) async throws {
        for function in functions { try module.load(function.name) }
        let names = functions.map(\.name)
        for name in added where !names.contains(name) { _ = module.unload(name) }
        added = names
    }

    func run(
        _ method: MethodFacts, _ inputs: [InputTensor], isolation: isolated (any Actor)?
    ) async throws -> [[Float]] {
        let values = try inputs.map(Self.value)
        let outputs: [Value] = try module.execute(method.name, values)
        return try outputs.map { try Self.floats($0, method.name) }
    }

    /// The program must offer the methods of the manifest with the same inputs.
    private static func check(_ module: Module) throws {
        let names = try module.methodNames()
        for method in ModelFacts.methods {
            guard names.contains(method.name) else {
                throw EdgecError.runtimeDiffers("there is no method \(method.name)")
            }
            let metadata = try module.methodMetadata(method.name).inputTensorMetadata
            for (index, input) in method.inputs.enumerated() {
                guard let tensor = metadata[index], fits(tensor.shape, input.shape) else {
                    throw EdgecError.runtimeDiffers("the input \(input.name) of \(method.name) has another shape")
                }
            }
        }
    }

    private static func fits(_ shape: [Int], _ declared: [Int]) -> Bool {
        shape.count == declared.count && zip(shape, declared).allSatisfy { $1 < 0 || $0 == $1 }
    }

    private static func value(_ input: InputTensor) throws -> any ValueConvertible {
        switch (input.values, input.dtype) {
        case (.integers(let numbers), "int64"): return Tensor<Int64>(numbers.map { Int64($0) }, shape: input.shape)
        case (.integers(let numbers), "int32"): return Tensor<Int32>(numbers.map { Int32($0) }, shape: input.shape)
        case (.integers(let numbers), "bool"): return Tensor<Bool>(numbers.map { $0 != 0 }, shape: input.shape)
        case (.floats(let numbers), "float32"): return Tensor<Float>(numbers, shape: input.shape)
        case (.held(let buffer), _):
            guard let start = buffer.memory.baseAddress else { break }
            return AnyTensor(bytesNoCopy: start, shape: input.shape, dataType: buffer.isHalf ? .half : .float)
        default: break
        }
        throw EdgecError.inputDoesNotFit(name: input.name, why: "values of \(input.dtype) are not supported")
    }

    private static func floats(_ value: Value, _ method: String) throws -> [Float] {
        guard let tensor = value.anyTensor else {
            throw EdgecError.runtimeDiffers("\(method) returned something other than a tensor")
        }
        return Tensor<Float>(tensor.copy(to: .float)).scalars()
    }
}
