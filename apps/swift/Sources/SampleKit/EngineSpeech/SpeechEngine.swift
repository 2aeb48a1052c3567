import SampleKitEngine
import Foundation

/// The artifact in edgec's engine, with ExecuTorch below it.
final class OpenedSpeech {
    let audioHandle: OpaquePointer

    init(_ bundle: CheckedBundle) async throws {
        SampleKit_register_standard_operators()
        audioHandle = try EngineCall.opened {
            SampleKit_audio_open(bundle.folder.path, bundle.artifact.path, $0, $1)
        }
    }

    deinit { SampleKit_audio_close(audioHandle) }

    /// The engine tells its failures itself.
    func takeFailure() -> (any Error)? { nil }
}
