package dev.edgec.sample

/** What is written of speech: what was said, or its translation into English. */
enum class SpeechTask { TRANSCRIBE, TRANSLATE }

/**
 * What is asked of a transcription; the defaults are those of `edgec run --audio`.
 *
 * @property language that is spoken, such as `en`; null: the model detects it in the first window.
 * @property timestamps cut the text by the model's own timestamps; null: where it has them.
 * @property maxNewTokens of each window; null: as many as the decoder's context takes.
 */
data class TranscriptionOptions(
    val language: String? = null,
    val task: SpeechTask = SpeechTask.TRANSCRIBE,
    val timestamps: Boolean? = null,
    val maxNewTokens: Int? = null,
)

/**
 * A piece of what was said.
 *
 * @property startS seconds from the sound's beginning.
 * @property endS likewise.
 * @property tokens with timestamps among them.
 */
data class SpeechSegment(val startS: Double, val endS: Double, val text: String, val tokens: List<Int>)

/**
 * How long a transcription took, measured in this process.
 *
 * @property soundS the sound's length in seconds.
 * @property featuresMs to make what the encoder reads.
 * @property encodeMs in the encoder.
 * @property writeMs in the decoder, a token at a time.
 */
data class TranscriptTimings(val soundS: Double, val featuresMs: Double, val encodeMs: Double, val writeMs: Double) {
    /** Seconds of sound for each second of work. */
    val speed: Double get() = 1000 * soundS / (featuresMs + encodeMs + writeMs)
}

/**
 * All that was said in a sound.
 *
 * @property text of all segments.
 * @property language its token, such as `<|en|>`; null where the model knows one language.
 */
data class Transcript(
    val text: String,
    val segments: List<SpeechSegment>,
    val language: String?,
    val timings: TranscriptTimings,
)

/** A sound that cannot be transcribed. */
open class SoundRefused(val why: String) : EdgecException("The sound cannot be transcribed: $why.")

/** There is no such file, or it is not a WAV file of integers of 8 to 32 bits or floats. */
class SoundUnreadable(why: String) : SoundRefused(why)

/** It has no samples. */
class SoundEmpty(why: String) : SoundRefused(why)

/** It lasts longer than [SpeechLimits.LONGEST_S] seconds. */
class SoundTooLong(why: String) : SoundRefused(why)

/** It has another rate than [SpeechLimits.SAMPLING_RATE]. */
class SoundRateDiffers(why: String) : SoundRefused(why)

/** It holds values that are not numbers. */
class SoundNotFinite(why: String) : SoundRefused(why)

/** The model has no token for the language. */
class LanguageUnknown(val why: String) : EdgecException("The language cannot be transcribed: $why. Leave it out, or give another.")

/** The model has no such task, or no timestamps. */
class TranscriptionRefused(val why: String) : EdgecException("The transcription cannot be made: $why. Change the options.")
