
/// Something that feeds tokens to the model.
protocol Decoder: AnyObject {
    /// Feed 1...`ModelLimits.prefillChunk` tokens from position `start` on; the logits after the last one.
    func logits(_ tokens: [Int], start: Int, isolation: isolated (any Actor)?) async throws -> [Float]

    /// Call the artifact's functions under an adapter from now on; nil: those of the model as it is.
    func useFunctions(under adapter: String?) throws
}

/// A decoder over one method of dynamic length: tokens, their positions, and the rows whose logits are wanted.
final class ModelDecoder: Decoder {
    private let runtime: any Runtime
    private let method: MethodFacts

    init(_ runtime: any Runtime) throws {
        self.runtime = runtime
        method = ModelFacts.methods[0]
        if method.inputs.count != 3 {
            throw EdgecError.runtimeDiffers("\(method.name) does not take tokens, positions and rows")
        }
    }

    func useFunctions(under adapter: String?) throws {
        if adapter != nil { throw EdgecError.adapterRefused("this artifact has no functions under adapters") }
    }

    func logits(_ tokens: [Int], start: Int, isolation: isolated (any Actor)?) async throws -> [Float] {
        let positions = Array(start..<(start + tokens.count))
        let inputs = try [
            InputTensor(method.inputs[0], .integers(tokens), shape: [1, tokens.count]),
            InputTensor(method.inputs[1], .integers(positions), shape: [tokens.count]),
            InputTensor(method.inputs[2], .integers([tokens.count - 1]), shape: [1]),
        ]
        return try await runtime.run(method, inputs, isolation: isolation)[0]
    }
}
