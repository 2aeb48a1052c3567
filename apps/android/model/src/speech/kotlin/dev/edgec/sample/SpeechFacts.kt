package dev.edgec.sample

private val facts = Facts.OF_MODEL.part("speech")

/** What the model transcribes, as its bundle says. */
object SpeechLimits {
    /** Samples a second of every sound. */
    val SAMPLING_RATE = facts.count("samplingRate")
    /** Samples that the model reads at a time. */
    val WINDOW_SAMPLES = facts.count("windowSamples")
    /** The longest sound in seconds. */
    val LONGEST_S = facts.count("longestSeconds")
    /** Whether the model cuts its text by timestamps. */
    val HAS_TIMESTAMPS = facts.isTrue("hasTimestamps")
}

internal object SpeechFacts {
    /** Numbers in the source of the golden vector. */
    val GOLDEN_VALUES = facts.count("goldenValues")
}
