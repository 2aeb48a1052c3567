import SwiftUI
import SampleKit

/// The conversation, what is typed, and what the model is doing.
struct ChatScreen: View {
    let chat: ChatModel
    @State private var typed = ""

    var body: some View {
        VStack {
            status
            ScrollView {
                VStack(alignment: .leading) {
                    ForEach(chat.lines) { line in
                        Text(line.role == .user ? "You: \(line.text)" : line.text)
                        Text(line.note ?? "").font(.caption)
                    }
                }
            }
            if let notice = chat.notice { Text(notice).font(.caption) }
            if let note = chat.chosen.note { Text("With the next message: \(note)").font(.caption) }
            HStack {
                PictureButton(chat: chat)
                TextField("Message", text: $typed)
                if chat.stage == .answering {
                    Button("Stop") { chat.stop() }
                } else {
                    Button("Send") { send() }.disabled(chat.stage != .ready || typed.isEmpty)
                }
            }
        }
        .padding()
        .task { await chat.load() }
    }

    private func send() {
        chat.send(typed)
        if chat.stage == .answering { typed = "" }
    }

    @ViewBuilder private var status: some View {
        switch chat.stage {
        case .loading(let step): ProgressView(Self.words(step), value: Self.share(step))
        case .failed(let why):
            Text(why)
            Button("Try again") { Task { await chat.load() } }
        case .unloaded: Button("Load the model") { Task { await chat.load() } }
        case .ready, .answering:
            HStack {
                Button("Unload") { chat.unload() }
                Button("New conversation") { chat.clear() }.disabled(chat.stage == .answering)
            }
        }
    }

    private static func words(_ step: LoadStep) -> String {
        switch step {
        case .finding: return "Looking for the model"
        case .checking: return "Checking the model's files"
        case .loading: return "Loading the model"
        case .comparing: return "Comparing its answers with those at export"
        }
    }

    /// Nil where it is not known how much is left.
    private static func share(_ step: LoadStep) -> Double? {
        guard case .checking(let bytes, let all) = step, all > 0 else { return nil }
        return Double(bytes) / Double(all)
    }
}
