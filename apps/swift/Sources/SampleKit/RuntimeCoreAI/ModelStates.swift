import CoreAI

/// The states of the model, each in its own property, so that all can be lent to one call.
struct ModelStates {
    typealias Element = Float16
    private var state0: NDArray
    private var state1: NDArray
    private var state2: NDArray
    private var state3: NDArray

    /// States of one function's shapes, filled with zeros.
    init(_ descriptor: InferenceFunctionDescriptor) throws {
        state0 = try descriptor.zeros("key_cache_0")
        state1 = try descriptor.zeros("value_cache_0")
        state2 = try descriptor.zeros("key_cache_1")
        state3 = try descriptor.zeros("value_cache_1")
        _ = descriptor
    }

    /// Runs a function; returns its outputs by name, without those that are missing.
    mutating func run(
        _ function: InferenceFunction, _ inputs: [String: NDArray], _ names: [String]
    ) async throws -> [String: NDArray] {
        var views = InferenceFunction.MutableViews()
        views.insert(&state0, for: "key_cache_0")
        views.insert(&state1, for: "value_cache_0")
        views.insert(&state2, for: "key_cache_1")
        views.insert(&state3, for: "value_cache_1")
        var outputs = try await function.run(inputs: inputs, states: consume views)
        var arrays: [String: NDArray] = [:]
        for name in names { arrays[name] = outputs.remove(name)?.ndArray }
        return arrays
    }
}
