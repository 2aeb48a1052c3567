import SwiftUI
import SampleKit

/// A sample: one conversation with the model. Copy what you need of it into your own app.
@main
struct EdgecChatApp: App {
    @State private var chat = ChatModel(LoadOptions(bundle: folder))

    var body: some Scene {
        WindowGroup {
            ChatScreen(chat: chat).task { SystemEvents.tell(chat) }
        }
    }

    /// A bundle too large for the package is a folder of this app, so that nothing is downloaded to try it.
    private static var folder: URL? { Bundle.main.url(forResource: ModelFacts.bundleFolder, withExtension: nil) }
}
