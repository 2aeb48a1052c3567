import CoreML
import Foundation

/// The artifact in Core ML: one model per function over the same weights, and one state for all of them.
final class ModelRuntime: Runtime {
    private var models: [String: MLModel] = [:]
    private let compiled: URL
    private let state: MLState?

    init(_ bundle: CheckedBundle) async throws {
        compiled = try await Self.compiled(bundle)
        for method in ModelFacts.methods {
            let model = try await MLModel.load(contentsOf: compiled, configuration: Self.configuration(method))
            try Self.check(model, method)
            models[method.name] = model
        }
        let stateful = models.values.first { !$0.modelDescription.stateDescriptionsByName.isEmpty }
        state = stateful?.makeState()
    }

    /// Loads synchronously: a model that is loaded elsewhere could not come to the actor.
    func load(_ functions: [MethodFacts], isolation: isolated (any Actor)?) async throws {
        let own = Set(ModelFacts.methods.map(\.name))
        var kept = models.filter { own.contains($0.key) }
        for function in functions {
            let model = try MLModel(contentsOf: compiled, configuration: Self.configuration(function))
            try Self.check(model, function)
            kept[function.name] = model
        }
        models = kept
    }

    private static var units: MLComputeUnits {
        switch ModelFacts.unit {
        case "npu": return .cpuAndNeuralEngine
        case "gpu": return .cpuAndGPU
        case "cpu": return .cpuOnly
        default: return .all
        }
    }

    private static func configuration(_ method: MethodFacts) -> MLModelConfiguration {
        let configuration = MLModelConfiguration()
        configuration.computeUnits = Self.units
        if ModelFacts.methods.count > 1 { configuration.functionName = method.name }
        return configuration
    }

    func run(
        _ method: MethodFacts, _ inputs: [InputTensor], isolation: isolated (any Actor)?
    ) async throws -> [[Float]] {
        let outputs = try features(method, inputs)
        return try method.outputs.map { try Self.floats(outputs[$0.name], $0.name) }
    }

    /// The outputs of a function as Core ML gave them; `given`: inputs that another function's outputs are.
    func features(
        _ method: MethodFacts, _ inputs: [InputTensor], given: [String: MLFeatureValue] = [:]
    ) throws -> [String: MLFeatureValue] {
        guard let model = models[method.name] else {
            throw EdgecError.runtimeDiffers("there is no function \(method.name)")
        }
        let own = try inputs.map { ($0.name, MLFeatureValue(multiArray: try Self.array($0))) }
        let all = given.merging(own) { _, new in new }
        let outputs = try predict(model, MLDictionaryFeatureProvider(dictionary: all))
        var made: [String: MLFeatureValue] = [:]
        for facts in method.outputs { made[facts.name] = outputs.featureValue(for: facts.name) }
        return made
    }

    /// Predicts synchronously, so that neither model nor state leaves the actor, whatever the SDK allows.
    /// A function without states, such as `see` beside a decoder, takes none.
    private func predict(_ model: MLModel, _ features: MLDictionaryFeatureProvider) throws -> any MLFeatureProvider {
        if let state, !model.modelDescription.stateDescriptionsByName.isEmpty {
            return try model.prediction(from: features, using: state)
        }
        return try model.prediction(from: features)
    }

    /// The package compiled for this device, once per bundle and system.
    private static func compiled(_ bundle: CheckedBundle) async throws -> URL {
        let kept = try FirstStart.folder(bundle.key).appending(path: "model.mlmodelc")
        if FileManager.default.fileExists(atPath: kept.path) { return kept }
        let fresh = try await MLModel.compileModel(at: bundle.artifact)
        do {
            try FileManager.default.moveItem(at: fresh, to: kept)
        } catch {
            // Another load may have put the same model there meanwhile.
            if !FileManager.default.fileExists(atPath: kept.path) { throw error }
            try? FileManager.default.removeItem(at: fresh)
        }
        return kept
    }

    private static func check(_ model: MLModel, _ method: MethodFacts) throws {
        let descriptions = model.modelDescription.inputDescriptionsByName
        for input in method.inputs {
            let shape = descriptions[input.name]?.multiArrayConstraint?.shape.map(\.intValue)
            if shape != input.shape {
                throw EdgecError.runtimeDiffers("the input \(input.name) of \(method.name) has another shape")
            }
        }
    }

    private static func array(_ input: InputTensor) throws -> MLMultiArray {
        let shape = input.shape.map { NSNumber(value: $0) }
        switch (input.values, input.dtype) {
        case (.integers(let numbers), _):
            let array = try MLMultiArray(shape: shape, dataType: .int32)
            array.withUnsafeMutableBufferPointer(ofType: Int32.self) { buffer, _ in
                for (index, number) in numbers.enumerated() { buffer[index] = Int32(number) }
            }
            return array
        case (.held(let buffer), _):
            guard let start = buffer.memory.baseAddress else { return try MLMultiArray(shape: shape, dataType: .float16) }
            return try MLMultiArray(
                dataPointer: start, shape: shape, dataType: buffer.isHalf ? .float16 : .float32,
                strides: strides(input.shape))
        case (.floats(let numbers), "float16"):
            let array = try MLMultiArray(shape: shape, dataType: .float16)
            array.withUnsafeMutableBufferPointer(ofType: Float16.self) { buffer, _ in
                for (index, number) in numbers.enumerated() { buffer[index] = Float16(number) }
            }
            return array
        case (.floats(let numbers), _):
            let array = try MLMultiArray(shape: shape, dataType: .float32)
            array.withUnsafeMutableBufferPointer(ofType: Float.self) { buffer, _ in
                for (index, number) in numbers.enumerated() { buffer[index] = number }
            }
            return array
        }
    }

    private static func strides(_ shape: [Int]) -> [NSNumber] {
        shape.indices.map { axis in NSNumber(value: shape[(axis + 1)...].reduce(1, *)) }
    }

    /// The numbers of an output in row order.
    static func floats(_ output: MLFeatureValue?, _ name: String) throws -> [Float] {
        guard let array = output?.multiArrayValue else {
            throw EdgecError.runtimeDiffers("there is no output \(name)")
        }
        return MLShapedArray<Float>(converting: array).scalars
    }
}
