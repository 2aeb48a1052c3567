import SwiftUI
import UniformTypeIdentifiers
import SampleKit

/// What was said, with the time of each part, and what the model is doing.
struct TranscribeScreen: View {
    let writing: TranscribeModel
    @State private var choosing = false

    var body: some View {
        VStack {
            status
            ScrollView {
                VStack(alignment: .leading) {
                    ForEach(parts) { part in Text(part.text) }
                }
            }
            if let note = writing.note { Text(note).font(.caption) }
            HStack {
                recording
                Button("WAV file") { choosing = true }.disabled(writing.stage != .ready)
            }
        }
        .padding()
        .task { await writing.load() }
        .fileImporter(isPresented: $choosing, allowedContentTypes: [.wav]) { chosen in take(chosen) }
    }

    private struct Part: Identifiable {
        let id: Int
        let text: String
    }

    private var parts: [Part] {
        writing.segments.enumerated().map { place, segment in
            Part(id: place, text: String(format: "%.1f s: ", segment.start) + segment.text)
        }
    }

    @ViewBuilder private var recording: some View {
        switch writing.stage {
        case .recording: Button("Write it down") { writing.finish() }
        case .writing: Button("Stop") { writing.stop() }
        default: Button("Record") { Task { await writing.record() } }.disabled(writing.stage != .ready)
        }
    }

    private func take(_ chosen: Result<URL, any Error>) {
        Task {
            do {
                let file = try chosen.get()
                writing.transcribe(try await Task.detached { try Self.copied(file) }.value)
            } catch {
                writing.cannotRead(error)
            }
        }
    }

    /// A file of another app can be read only between two calls, so the app takes a copy of it.
    private nonisolated static func copied(_ file: URL) throws -> URL {
        let isForeign = file.startAccessingSecurityScopedResource()
        defer { if isForeign { file.stopAccessingSecurityScopedResource() } }
        let copy = FileManager.default.temporaryDirectory.appending(path: "chosen.wav")
        try? FileManager.default.removeItem(at: copy)
        try FileManager.default.copyItem(at: file, to: copy)
        return copy
    }

    @ViewBuilder private var status: some View {
        switch writing.stage {
        case .loading(let step): ProgressView(Self.words(step), value: Self.share(step))
        case .failed(let why):
            Text(why)
            Button("Try again") { Task { await writing.load() } }
        case .unloaded: Button("Load the model") { Task { await writing.load() } }
        case .ready, .recording, .writing: Button("Unload") { writing.unload() }
        }
    }

    private static func words(_ step: LoadStep) -> String {
        switch step {
        case .finding: return "Looking for the model"
        case .checking: return "Checking the model's files"
        case .loading: return "Loading the model"
        case .comparing: return "Comparing its text with that at export"
        }
    }

    /// Nil where it is not known how much is left.
    private static func share(_ step: LoadStep) -> Double? {
        guard case .checking(let bytes, let all) = step, all > 0 else { return nil }
        return Double(bytes) / Double(all)
    }
}
