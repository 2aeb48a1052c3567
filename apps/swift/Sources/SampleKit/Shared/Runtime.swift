import Foundation

/// One input or output of a method; a negative dimension varies from call to call.
struct TensorFacts: Decodable {
    let name: String
    let dtype: String
    let shape: [Int]
}

/// One entry point of the artifact.
struct MethodFacts: Decodable {
    let name: String
    let inputs: [TensorFacts]
    let outputs: [TensorFacts]

    /// The artifact's method of this name.
    static func named(_ name: String) throws -> MethodFacts {
        if let method = ModelFacts.methods.first(where: { $0.name == name }) { return method }
        throw EdgecError.runtimeDiffers("the manifest lists no method \(name)")
    }

    /// The artifact's function for this method under one of its adapters.
    func under(_ adapter: String) -> MethodFacts {
        MethodFacts(name: "\(name)_\(adapter)", inputs: inputs, outputs: outputs)
    }
}

/// The values of an input of a method.
struct InputTensor {
    enum Values {
        case floats([Float])
        case integers([Int])
        case held(StateBuffer)
    }

    let name: String
    let dtype: String
    let shape: [Int]
    let values: Values

    /// Values for a declared input, as many as its shape asks for.
    init(_ facts: TensorFacts, _ values: Values, shape: [Int]? = nil) throws {
        let shape = shape ?? facts.shape
        let count: Int
        switch values {
        case .floats(let numbers): count = numbers.count
        case .integers(let numbers): count = numbers.count
        case .held(let buffer): count = buffer.count
        }
        if count != shape.reduce(1, *) {
            throw EdgecError.inputDoesNotFit(name: facts.name, why: "\(count) values for the shape \(shape)")
        }
        self.name = facts.name
        self.dtype = facts.dtype
        self.shape = shape
        self.values = values
    }
}

/// A loaded artifact that runs methods; outputs come back as numbers in row order.
///
/// It belongs to the actor that calls it and runs there: nothing else may touch it meanwhile.
protocol Runtime: AnyObject {
    func run(
        _ method: MethodFacts, _ inputs: [InputTensor], isolation: isolated (any Actor)?
    ) async throws -> [[Float]]

    /// Add an adapter's file from the next call on, or none.
    func useAdapter(_ file: URL?) throws

    /// Load the functions under an adapter of the artifact, in place of those under another one.
    func load(_ functions: [MethodFacts], isolation: isolated (any Actor)?) async throws

    /// Begin a text of at most `budget` tokens that is held to a schema of the bundle.
    func holdTo(schema name: String, budget: Int) throws -> any ConstrainedText

    /// Begin a message whose calls are held to their tools.
    func holdTo(calls structure: CallStructure) throws -> any ConstrainedText
}

/// The files of a structure that calls are held to.
struct CallStructure {
    let grammar, vocabulary: URL
}

/// A text whose next tokens are held to something, such as a schema.
protocol ConstrainedText: AnyObject {
    /// Set the logits of all tokens that may not come next to -infinity.
    func mask(_ logits: inout [Float]) throws

    /// Move on by a token that the mask leaves; says how far the text has come.
    func take(_ token: Int) throws -> TextProgress
}

/// How far a text has come that is held to a schema: it lacks something, it is whole, or nothing may follow.
enum TextProgress: Int32 { case open, whole, ended }

extension Runtime {
    func useAdapter(_ file: URL?) throws {
        if file == nil { return }
        throw EdgecError.adapterRefused("only edgec's engine adds adapters, and this artifact has another runtime")
    }

    func load(_ functions: [MethodFacts], isolation: isolated (any Actor)?) async throws {
        throw EdgecError.adapterRefused("this artifact has no functions under adapters")
    }

    func holdTo(schema name: String, budget: Int) throws -> any ConstrainedText {
        throw EdgecError.schemaRefused("only edgec's engine does that, and this artifact has another runtime")
    }

    func holdTo(calls structure: CallStructure) throws -> any ConstrainedText {
        throw EdgecError.toolChoiceRefused("only edgec's engine does that, and this artifact has another runtime")
    }
}

/// A state that the methods only read: it is an input, and new values come back as an output for the caller to write.
final class StateBuffer {
    let count: Int
    let memory: UnsafeMutableRawBufferPointer
    let isHalf: Bool
    private let slots: Int
    private let width: Int

    /// Zeros in the shape [1, groups, slots, width] of an input.
    init(_ facts: TensorFacts) throws {
        guard facts.shape.count == 4, ["float16", "float32"].contains(facts.dtype) else {
            throw EdgecError.runtimeDiffers("the state \(facts.name) is not a float array of four dimensions")
        }
        count = facts.shape.reduce(1, *)
        isHalf = facts.dtype == "float16"
        slots = facts.shape[2]
        width = facts.shape[3]
        memory = .allocate(byteCount: count * (isHalf ? 2 : 4), alignment: 64)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
    }

    deinit { memory.deallocate() }

    /// Write the first `tokens` of `rows` [1, groups, all, width] to the slots from `start` on.
    func write(_ rows: [Float], all: Int, tokens: Int, start: Int) {
        for group in 0..<(count / slots / width) {
            for token in 0..<min(tokens, slots - start) {
                let from = (group * all + token) * width
                store(rows[from..<(from + width)], at: (group * slots + start + token) * width)
            }
        }
    }

    /// Put all of a state in the place of the one before, as recurrences leave it.
    func replace(_ whole: [Float]) { store(whole[...], at: 0) }

    private func store(_ numbers: ArraySlice<Float>, at index: Int) {
        if isHalf {
            let target = memory.bindMemory(to: Float16.self)
            for (offset, number) in numbers.enumerated() { target[index + offset] = Float16(number) }
        } else {
            let target = memory.bindMemory(to: Float.self)
            for (offset, number) in numbers.enumerated() { target[index + offset] = number }
        }
    }
}
