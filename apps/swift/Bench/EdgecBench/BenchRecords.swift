import Foundation
import SampleKit

/// The lines of the result, in the record schema of `edgec bench`, version 1; null means unavailable.
struct BenchRecords {
    private let job: BenchJob
    private let identifier = UUID().uuidString.lowercased()

    init(_ job: BenchJob) { self.job = job }

    static func lines(_ records: [[String: Any]]) throws -> Data {
        var text = Data()
        for record in records {
            text += try JSONSerialization.data(withJSONObject: record, options: [.sortedKeys, .withoutEscapingSlashes])
            text += Data("\n".utf8)
        }
        return text
    }

    func run(started: Date, before: [String: Any], after: [String: Any]) -> [String: Any] {
        common([
            "kind": "run",
            "obtained": "measured",
            "started": ISO8601DateFormatter().string(from: started),
            "edgec_version": job.edgecVersion,
            "warmups": job.warmups,
            "repetitions": job.repetitions,
            "ignore_eos": true,
            "before": before,
            "after": after,
            "energy_j": NSNull(),
        ])
    }

    func load(ms: Double) -> [String: Any] {
        common([
            "kind": "load",
            "obtained": "measured: ContinuousClock in the app, checks included, after a first load",
            "state": "warm",
            "load_ms": ms,
            "resident_share": NSNull(),
        ])
    }

    func memory(peak: Int, baseline: Int) -> [String: Any] {
        common([
            "kind": "memory",
            "obtained": "measured: resident_size_peak of task_info",
            "peak_rss_bytes": peak,
            "baseline_rss_bytes": baseline,
        ])
    }

    func repetition(_ index: Int, _ lap: Lap) -> [String: Any] {
        common([
            "kind": "repetition",
            "obtained": "measured: ContinuousClock in the app, after \(job.warmups) warm-ups",
            "index": index,
            "ttft_ms": 1000 * lap.firstTokenS,
            "prefill_tokens_per_s": Double(job.promptTokens) / lap.firstTokenS,
            "decode_tokens_per_s": lap.gapsS.isEmpty ? NSNull() as Any : speed(lap.gapsS),
            "token_ms": lap.gapsS.map { 1000 * $0 },
            "tokens": lap.gapsS.count + 1,
            "finish_reason": lap.gapsS.count + 1 == job.newTokens ? "length" : "context",
        ])
    }

    func sustained(elapsed: Double, gaps: [Double]) -> [String: Any] {
        common([
            "kind": "sustained",
            "obtained": "measured: ContinuousClock in the app",
            "elapsed_s": elapsed,
            "decode_tokens_per_s": speed(gaps),
            "clock_mhz": NSNull(),
            "temperature_c": NSNull(),
        ])
    }

    private func speed(_ gaps: [Double]) -> Any { Double(gaps.count) / gaps.reduce(0, +) }

    private func common(_ own: [String: Any]) -> [String: Any] {
        let shared: [String: Any] = [
            "schema_version": 1,
            "run": identifier,
            "simulated": DeviceFacts.isSimulated,
            "comparability": comparability(),
            "subject": subject(),
        ]
        return shared.merging(own) { _, new in new }
    }

    private func comparability() -> [String: Any] {
        [
            "schema_version": 1,
            "device": job.device,
            "machine": "\(DeviceFacts.chip()) x\(ProcessInfo.processInfo.processorCount)",
            "model": ModelFacts.model,
            "model_parameters": ModelFacts.parameters,
            "prompt_tokens": job.promptTokens,
            "new_tokens": job.newTokens,
            "threads": ProcessInfo.processInfo.activeProcessorCount,
            "runtime": "\(ModelFacts.runtime) \(ModelFacts.runtimeVersion), \(ModelFacts.format), Swift package",
        ]
    }

    private func subject() -> [String: Any] {
        [
            "name": ModelFacts.name,
            "digest": ModelFacts.digest,
            "recipe": ModelFacts.recipe,
            "target": ModelFacts.target,
            "artifact_bytes": ModelFacts.artifactBytes,
            "context": ModelLimits.context,
        ]
    }
}
