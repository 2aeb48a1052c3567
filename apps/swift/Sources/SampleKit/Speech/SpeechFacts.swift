private let facts: SpeechPart = FactsFile.part("speech")

/// What the model transcribes, as its bundle says.
public enum SpeechLimits {
    /// Samples a second of every sound.
    public static let samplingRate = facts.samplingRate
    /// Samples that the model reads at a time.
    public static let windowSamples = facts.windowSamples
    /// The longest sound in seconds.
    public static let longestSeconds = facts.longestSeconds
    /// Whether the model cuts its text by timestamps.
    public static let hasTimestamps = facts.hasTimestamps
}

enum SpeechFacts {
    /// Numbers in the source of the golden vector.
    static let goldenValues = facts.goldenValues
    /// Positions that may be written, including the padding of the last chunk.
    static let slots = facts.slots
}

private struct SpeechPart: Decodable {
    let samplingRate, windowSamples, longestSeconds, goldenValues, slots: Int
    let hasTimestamps: Bool
}
