// In the place of Core ML: the answers of Python's calls in their order. What calls were given is kept, to be written as JSON.
import CoreML
import Foundation

/// Numbers of float32 in row order.
struct Given: Decodable {
    let shape: [Int]
    let bytes: Data
}

/// Numbers in row order, as numpy names their type.
struct Kept: Encodable {
    let shape: [Int]
    let type: String
    let bytes: Data
}

struct CallDiffers: Error { let why: String }

final class Replayed: @unchecked Sendable {
    struct Answer: Decodable {
        let function: String
        let outputs: [String: Given]
    }
    struct Call: Encodable {
        let function: String
        let state: Bool
        let inputs: [String: Kept]
    }

    private(set) var calls: [Call] = []
    /// Runs after a call was kept and before it is answered.
    var before: (String) throws -> Void = { _ in }
    private var answers: ArraySlice<Answer>
    private var state: MLState?
    var left: Int { answers.count }

    init(_ answers: [Answer]) { self.answers = answers[...] }

    func answer(_ name: String?, _ given: any MLFeatureProvider, _ state: MLState?) throws -> any MLFeatureProvider {
        guard let name, let next = answers.popFirst(), next.function == name else {
            throw CallDiffers(why: "call \(calls.count) is of \(name ?? "no function")")
        }
        if let state {
            self.state = self.state ?? state
            if self.state !== state { throw CallDiffers(why: "call \(calls.count) has another state") }
        }
        var inputs: [String: Kept] = [:]
        for input in given.featureNames { inputs[input] = Self.numbers(given.featureValue(for: input)!.multiArrayValue!) }
        calls.append(Call(function: name, state: state != nil, inputs: inputs))
        try before(name)
        return try MLDictionaryFeatureProvider(dictionary: next.outputs.mapValues { MLFeatureValue(multiArray: try Self.array($0)) })
    }

    private static func numbers(_ array: MLMultiArray) -> Kept {
        let shape = array.shape.map(\.intValue)
        switch array.dataType {
        case .int32:
            let bytes = array.withUnsafeBufferPointer(ofType: Int32.self) { Data(buffer: $0) }
            return Kept(shape: shape, type: "int32", bytes: bytes)
        case .float16:
            let bytes = array.withUnsafeBufferPointer(ofType: Float16.self) { Data(buffer: $0) }
            return Kept(shape: shape, type: "float16", bytes: bytes)
        default:
            let bytes = array.withUnsafeBufferPointer(ofType: Float.self) { Data(buffer: $0) }
            return Kept(shape: shape, type: "float32", bytes: bytes)
        }
    }

    private static func array(_ numbers: Given) throws -> MLMultiArray {
        let array = try MLMultiArray(shape: numbers.shape.map { NSNumber(value: $0) }, dataType: .float32)
        array.withUnsafeMutableBufferPointer(ofType: Float.self) { buffer, _ in
            _ = numbers.bytes.copyBytes(to: UnsafeMutableRawBufferPointer(buffer))
        }
        return array
    }

    /// What Core ML says of a function with these inputs.
    static func describe(_ inputs: [(String, [Int])], hasState: Bool) -> MLModelDescription {
        let description = MLModelDescription()
        for (name, sizes) in inputs {
            let constraint = MLMultiArrayConstraint(shape: sizes.map { NSNumber(value: $0) }, dataType: .float32)
            description.inputDescriptionsByName[name] = MLFeatureDescription(name: name, constraint: constraint)
        }
        if hasState { description.stateDescriptionsByName["cache"] = MLFeatureDescription(name: "cache", constraint: nil) }
        return description
    }
}
