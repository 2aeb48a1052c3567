// Stand-in: the microphone of the sample of speech. What is recorded is nothing.
import Foundation

public let kAudioFormatLinearPCM: UInt32 = 0x6C70_636D
public let AVFormatIDKey = "AVFormatIDKey"
public let AVSampleRateKey = "AVSampleRateKey"
public let AVNumberOfChannelsKey = "AVNumberOfChannelsKey"
public let AVLinearPCMBitDepthKey = "AVLinearPCMBitDepthKey"
public let AVLinearPCMIsFloatKey = "AVLinearPCMIsFloatKey"
public let AVLinearPCMIsBigEndianKey = "AVLinearPCMIsBigEndianKey"

public class AVAudioApplication {
    public class func requestRecordPermission() async -> Bool { false }
}
public class AVAudioSession {
    public struct Category: Sendable { public static let record = Category() }
    public struct Mode: Sendable { public static let measurement = Mode() }
    public class func sharedInstance() -> AVAudioSession { AVAudioSession() }
    public func setCategory(_ category: Category, mode: Mode) throws {}
    public func setActive(_ active: Bool) throws {}
}
public class AVAudioRecorder {
    public init(url: URL, settings: [String: Any]) throws {}
    public func record(forDuration duration: TimeInterval) -> Bool { true }
    public func stop() {}
}
