import SwiftUI
import SampleKit

/// A sample: what is said becomes text. Copy what you need of it into your own app.
@main
struct EdgecTranscribeApp: App {
    @State private var writing = TranscribeModel(Microphone(), LoadOptions(bundle: folder))

    var body: some Scene {
        WindowGroup {
            TranscribeScreen(writing: writing).task { SystemEvents.tell(writing) }
        }
    }

    /// A bundle too large for the package is a folder of this app, so that nothing is downloaded to try it.
    private static var folder: URL? { Bundle.main.url(forResource: ModelFacts.bundleFolder, withExtension: nil) }
}
