
/// The queue of calls that wait for the running one; only the actor that owns the gate touches it.
final class CallGate {
    var isBusy = false
    var waiting: [CheckedContinuation<Void, Never>] = []
}

/// An actor that runs one call at a time; an actor alone would let another call in at every await.
protocol OneCallAtATime: Actor {
    var gate: CallGate { get }
}

extension OneCallAtATime {
    func exclusively<Result: Sendable>(_ body: () async throws -> Result) async rethrows -> Result {
        while gate.isBusy { await withCheckedContinuation { gate.waiting.append($0) } }
        gate.isBusy = true
        defer {
            gate.isBusy = false
            if !gate.waiting.isEmpty { gate.waiting.removeFirst().resume() }
        }
        return try await body()
    }
}
