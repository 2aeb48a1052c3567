import Foundation

/// Inputs that every language can compute alike: x[i] = (2654435761 * i + 12345) mod 2^32.
enum ProbeValues {
    /// The shape of an input, with the largest of a size that varies.
    static func shape(_ facts: TensorFacts) -> [Int] { facts.shape.map { $0 < 0 ? ModelFacts.largestSize : $0 } }

    static func values(_ facts: TensorFacts, bound: Int) -> InputTensor.Values {
        let count = shape(facts).reduce(1, *)
        let raw = (0..<count).map { (2_654_435_761 &* UInt64($0) &+ 12_345) % (1 << 32) }
        if facts.dtype.hasPrefix("float") { return .floats(raw.map { Float(Double($0) / 2_147_483_648 - 1) }) }
        return .integers(raw.map { Int($0 % UInt64(max(bound, 1))) })
    }
}

/// Compares the model's outputs for generated inputs with those at export.
enum GoldenFunctions {
    private struct Golden: Decodable { let functions: [Vector] }

    private struct Vector: Decodable {
        let bounds: [String: Int]
        let indices: [String: [Int]]
        let values: [String: [Double]]
        let tolerance: Double
        let tolerances: [String: Double]?
        let value_tolerances: [String: [Double]]?
    }

    static func check(
        _ bundle: URL, _ runtime: any Runtime, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let golden = try JSONDecoder().decode(
            Golden.self, from: Data(contentsOf: bundle.appending(path: "golden.json")))
        guard !golden.functions.isEmpty, golden.functions.count <= ModelFacts.methods.count else {
            let counts = "\(golden.functions.count) vectors for \(ModelFacts.methods.count) methods"
            throw EdgecError.bundleAltered(file: "golden.json", why: counts)
        }
        for (vector, method) in zip(golden.functions, ModelFacts.methods) {
            let inputs = try method.inputs.map { facts in
                let values = ProbeValues.values(facts, bound: vector.bounds[facts.name] ?? 0)
                return try InputTensor(facts, values, shape: ProbeValues.shape(facts))
            }
            let outputs = try await runtime.run(method, inputs, isolation: isolation)
            guard outputs.count == method.outputs.count else {
                throw EdgecError.runtimeDiffers("\(method.name) gives \(outputs.count) outputs")
            }
            for (facts, numbers) in zip(method.outputs, outputs) { try compare(facts.name, numbers, vector) }
        }
    }

    private static func compare(_ name: String, _ output: [Float], _ vector: Vector) throws {
        guard let indices = vector.indices[name], let values = vector.values[name],
            !indices.isEmpty, indices.count == values.count
        else { throw EdgecError.bundleAltered(file: "golden.json", why: "it has no values for \(name)") }
        let one = vector.tolerances?[name] ?? vector.tolerance
        let allowed = vector.value_tolerances?[name] ?? Array(repeating: one, count: values.count)
        guard allowed.count == values.count else {
            throw EdgecError.bundleAltered(file: "golden.json", why: "it has no tolerances for \(name)")
        }
        for ((index, value), tolerance) in zip(zip(indices, values), allowed) {
            // Not `>`: NaN is never within the tolerance.
            if !output.indices.contains(index) || !(abs(Double(output[index]) - value) <= tolerance) {
                throw EdgecError.outputDiffers("value \(index) of \(name) is not \(value)")
            }
        }
    }
}
