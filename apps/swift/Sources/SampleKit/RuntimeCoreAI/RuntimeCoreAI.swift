import CoreAI
import Foundation

/// The artifact in Core AI: functions over shared weights; the states belong to the caller.
final class ModelRuntime: Runtime {
    private var functions: [String: InferenceFunction] = [:]
    private let model: AIModel
    private var states: ModelStates?

    init(_ bundle: CheckedBundle) async throws {
        model = try await AIModel(contentsOf: bundle.artifact, options: Self.options)
        for method in ModelFacts.methods { functions[method.name] = try Self.loaded(model, method) }
        states = try ModelStates(ModelFacts.methods[0].name, functions)
    }

    /// Core AI's own choice, unless the artifact has the form that a GPU likes.
    private static var options: SpecializationOptions {
        ModelFacts.unit == "gpu" ? SpecializationOptions(preferredComputeUnitKind: .gpu) : .default
    }

    func load(_ functions: [MethodFacts], isolation: isolated (any Actor)?) async throws {
        let own = Set(ModelFacts.methods.map(\.name))
        var kept = self.functions.filter { own.contains($0.key) }
        for function in functions { kept[function.name] = try Self.loaded(model, function) }
        self.functions = kept
    }

    private static func loaded(_ model: AIModel, _ method: MethodFacts) throws -> InferenceFunction {
        guard let function = try model.loadFunction(named: method.name) else {
            throw EdgecError.runtimeDiffers("there is no function \(method.name)")
        }
        try check(function.descriptor, method)
        return function
    }

    func run(
        _ method: MethodFacts, _ inputs: [InputTensor], isolation: isolated (any Actor)?
    ) async throws -> [[Float]] {
        guard let function = functions[method.name] else {
            throw EdgecError.runtimeDiffers("there is no function \(method.name)")
        }
        var arrays: [String: NDArray] = [:]
        for input in inputs { arrays[input.name] = Self.array(input) }
        // A class's property cannot be lent across an await, and a copy would double the cache: the states are moved.
        guard var lent = states else { throw EdgecError.runtimeDiffers("a call is still running") }
        states = nil
        let outputs: [String: NDArray]
        // Not `defer`: the compiler of Swift 6.0 crashes on one in a function with an isolated parameter.
        do {
            outputs = try await lent.run(function, arrays, method.outputs.map(\.name))
        } catch {
            states = lent
            throw error
        }
        states = lent
        return try method.outputs.map { try Self.floats(outputs[$0.name], $0.name) }
    }

    private static func check(_ descriptor: InferenceFunctionDescriptor, _ method: MethodFacts) throws {
        for input in method.inputs {
            guard case .ndArray(let array)? = descriptor.inputDescriptor(of: input.name),
                array.shape == input.shape
            else {
                throw EdgecError.runtimeDiffers("the input \(input.name) of \(method.name) has another shape")
            }
        }
    }

    /// A row-major array, which Core AI converts to the layout that a function prefers, by a copy if necessary.
    private static func array(_ input: InputTensor) -> NDArray {
        switch (input.values, input.dtype) {
        case (.integers(let numbers), _): return NDArray(scalars: numbers.map { Int32($0) }, shape: input.shape)
        case (.floats(let numbers), "float16"):
            return NDArray(scalars: numbers.map { Float16($0) }, shape: input.shape)
        case (.floats(let numbers), _): return NDArray(scalars: numbers, shape: input.shape)
        case (.held(let buffer), _):
            if buffer.isHalf { return NDArray(scalars: buffer.memory.bindMemory(to: Float16.self), shape: input.shape) }
            return NDArray(scalars: buffer.memory.bindMemory(to: Float.self), shape: input.shape)
        }
    }

    private static func floats(_ array: NDArray?, _ name: String) throws -> [Float] {
        guard let array else { throw EdgecError.runtimeDiffers("there is no output \(name)") }
        switch array.scalarType {
        case .float16: return try read(array, as: Float16.self, name).map { Float($0) }
        case .float32: return try read(array, as: Float.self, name)
        case .int32: return try read(array, as: Int32.self, name).map { Float($0) }
        default: throw EdgecError.runtimeDiffers("the output \(name) has an unexpected type")
        }
    }

    /// The numbers in row order, whatever their strides: outputs have the layout that the function prefers.
    private static func read<T: BitwiseCopyable>(_ array: NDArray, as type: T.Type, _ name: String) throws -> [T] {
        if array.interleaveLayout != nil { throw EdgecError.runtimeDiffers("the output \(name) is interleaved") }
        let places = offsets(array.shape, array.strides)
        return array.view(as: type).withUnsafePointer { start, _, _ in places.map { start[$0] } }
    }

    /// Distances of the elements from the first one, in row order.
    private static func offsets(_ shape: [Int], _ strides: [Int]) -> [Int] {
        var offsets = [0]
        for (size, stride) in zip(shape, strides) {
            offsets = offsets.flatMap { start in (0..<size).map { start + $0 * stride } }
        }
        return offsets
    }
}

extension ModelStates {
    init(_ method: String, _ functions: [String: InferenceFunction]) throws {
        guard let descriptor = functions[method]?.descriptor else {
            throw EdgecError.runtimeDiffers("there is no function \(method)")
        }
        try self.init(descriptor)
    }
}

extension InferenceFunctionDescriptor {
    /// A state filled with zeros.
    func zeros(_ name: String) throws -> NDArray {
        guard case .ndArray(let layout)? = stateDescriptor(of: name) else {
            throw EdgecError.runtimeDiffers("there is no state \(name)")
        }
        var array = NDArray(descriptor: layout)
        let view = array.mutableView(as: ModelStates.Element.self)
        view.withUnsafeMutablePointer { pointer, shape, strides in
            var extent = 1
            for axis in 0..<shape.count { extent += (shape[axis] - 1) * strides[axis] }
            pointer.update(repeating: 0, count: extent)
        }
        return array
    }
}
