import SwiftUI

/// Runs Documents/job.json once and writes Documents/result.jsonl; only that file is the result, not the screen.
@main
struct EdgecBenchApp: App {
    @State private var status = "reading the job"

    var body: some Scene {
        WindowGroup {
            Text(status).padding().task { await run() }
        }
    }

    private func run() async {
        let documents = URL.documentsDirectory
        do {
            let job = try BenchJob.read(documents.appending(path: "job.json"))
            let records = try await BenchRun(job).records { status = $0 }
            try records.write(to: documents.appending(path: "result.jsonl"), options: .atomic)
            status = "done"
        } catch {
            status = "failed: \(error.localizedDescription)"
            try? Data(status.utf8).write(to: documents.appending(path: "error.txt"), options: .atomic)
        }
    }
}
