import AVFAudio
import Foundation
import SampleKit

/// The device's microphone, into a WAV file at the rate that the model hears; it records for ten minutes at most.
@MainActor
final class Microphone: SoundSource {
    private var recorder: AVAudioRecorder?
    private let file = FileManager.default.temporaryDirectory.appending(path: "sound.wav")

    func start() async throws {
        guard await AVAudioApplication.requestRecordPermission() else { throw MicrophoneFault.notAllowed }
        let session = AVAudioSession.sharedInstance()
        try session.setCategory(.record, mode: .measurement)
        try session.setActive(true)
        let recorder = try AVAudioRecorder(url: file, settings: Self.settings)
        guard recorder.record(forDuration: Self.mostSeconds) else { throw MicrophoneFault.notFree }
        self.recorder = recorder
    }

    func end() -> URL {
        recorder?.stop()
        recorder = nil
        try? AVAudioSession.sharedInstance().setActive(false)
        return file
    }

    private static let mostSeconds = 600.0
    private static var settings: [String: Any] {
        [
            AVFormatIDKey: kAudioFormatLinearPCM,
            AVSampleRateKey: SpeechLimits.samplingRate,
            AVNumberOfChannelsKey: 1,
            AVLinearPCMBitDepthKey: 16,
            AVLinearPCMIsFloatKey: false,
            AVLinearPCMIsBigEndianKey: false,
        ]
    }
}

enum MicrophoneFault: LocalizedError {
    case notAllowed, notFree

    var errorDescription: String? {
        switch self {
        case .notAllowed: return "The app may not record. Allow it the microphone in Settings."
        case .notFree: return "The microphone is not free. End calls and other recordings."
        }
    }
}
