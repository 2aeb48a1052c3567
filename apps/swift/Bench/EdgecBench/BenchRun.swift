import Foundation
import SampleKit

/// One generation: seconds to the first token, and from each token to the next.
struct Lap {
    let firstTokenS: Double
    let gapsS: [Double]
}

typealias Say = @MainActor @Sendable (String) -> Void

/// Measures the model of this package in this process; memory comes first, since a process only knows its highest peak.
struct BenchRun {
    private let job: BenchJob
    private let lines: BenchRecords
    private let prompt: [Int]

    init(_ job: BenchJob) {
        self.job = job
        lines = BenchRecords(job)
        var state: UInt64 = 0
        prompt = (0..<job.promptTokens).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(ModelLimits.vocabulary))
        }
    }

    /// The lines of the result; `say` is called on the main actor with what is being done, never while timing.
    func records(_ say: Say) async throws -> Data {
        let started = Date()
        let before = DeviceFacts.now()
        await say("memory")
        let baseline = DeviceFacts.residentBytes()
        var model = try await Self.load()
        _ = try await lap(model)
        var results = [lines.memory(peak: DeviceFacts.peakResidentBytes(), baseline: baseline)]
        for index in 0..<job.loads {
            await say("load \(index + 1)")
            let begin = ContinuousClock.now
            model = try await Self.load()
            results.append(lines.load(ms: 1000 * seconds(since: begin)))
        }
        results += try await repetitions(model, say)
        results += try await sustained(model, say)
        return try BenchRecords.lines([lines.run(started: started, before: before, after: DeviceFacts.now())] + results)
    }

    /// Load the model; a bundle too large for the package is a folder of this app, so that nothing is downloaded.
    private static func load() async throws -> EdgecModel {
        let folder = Bundle.main.url(forResource: ModelFacts.bundleFolder, withExtension: nil)
        return try await EdgecModel.load(LoadOptions(bundle: folder))
    }

    private func repetitions(_ model: EdgecModel, _ say: Say) async throws -> [[String: Any]] {
        for _ in 0..<job.warmups { _ = try await lap(model) }
        var results: [[String: Any]] = []
        for index in 0..<job.repetitions {
            await say("repetition \(index + 1)")
            results.append(lines.repetition(index, try await lap(model)))
        }
        return results
    }

    private func sustained(_ model: EdgecModel, _ say: Say) async throws -> [[String: Any]] {
        let begin = ContinuousClock.now
        var results: [[String: Any]] = []
        while seconds(since: begin) < job.sustainedSeconds {
            let elapsed = seconds(since: begin)
            await say("sustained, \(Int(elapsed)) s")
            var gaps: [Double] = []
            while gaps.reduce(0, +) < 1 {
                let more = try await lap(model).gapsS
                // With one token there is no time between tokens, and the loop would never end.
                if more.isEmpty { throw EdgecError.optionOutOfRange("new_tokens") }
                gaps += more
            }
            results.append(lines.sustained(elapsed: elapsed, gaps: gaps))
        }
        return results
    }

    /// Generate greedily from an empty cache.
    private func lap(_ model: EdgecModel) async throws -> Lap {
        await model.reset()
        let begin = ContinuousClock.now
        var times: [Double] = []
        let options = GenerationOptions(maxNewTokens: job.newTokens, repetitionPenalty: 1)
        for try await _ in model.generate(tokens: prompt, options: options) { times.append(seconds(since: begin)) }
        guard let first = times.first else { throw EdgecError.outputDiffers("no token came") }
        return Lap(firstTokenS: first, gapsS: zip(times, times.dropFirst()).map { $1 - $0 })
    }

    private func seconds(since begin: ContinuousClock.Instant) -> Double {
        let parts = begin.duration(to: .now).components
        return Double(parts.seconds) + Double(parts.attoseconds) * 1e-18
    }
}
