package dev.edgec.sample

import java.io.Closeable
import java.io.File

/** What a step did, in the engine's numbers. */
internal enum class StepProgress { WORKED, SEGMENT, DONE }

/** A segment as the engine gives it; timestamps are among the tokens. */
internal class TranscribedSegment(val startS: Double, val endS: Double, val tokens: List<Int>)

/** What the engine knows of a sound so far. */
internal class TranscribedSummary(val language: String?, val firstTimestamp: Int, val timings: TranscriptTimings)

/** The bundle in edgec's engine, with ExecuTorch inside. */
internal class SpeechRuntime(bundle: File) : Closeable {
    private var handle = NativeEngine.open(bundle.path.toByteArray(), File(bundle, ModelFacts.ARTIFACT).path.toByteArray())

    /** Begin a sound; one that was begun before ends. */
    @Synchronized
    fun begin(sound: Sound, options: TranscriptionOptions) {
        val language = options.language?.toByteArray()
        val task = options.task.name.lowercase().toByteArray()
        val timestamps = when (options.timestamps) {
            null -> 0
            false -> 1
            true -> 2
        }
        val most = options.maxNewTokens ?: 0
        when (sound) {
            is Sound.Samples -> NativeEngine.begin(handle, sound.values, sound.rate, language, task, timestamps, most)
            is Sound.Wav -> NativeEngine.beginFile(handle, sound.file.path.toByteArray(), language, task, timestamps, most)
        }
    }

    /** Read a window of the sound, or write a token. */
    @Synchronized
    fun step() = StepProgress.values()[NativeEngine.step(handle)]

    /** The segment of the last step that gave one. */
    @Synchronized
    fun segment(): TranscribedSegment {
        val times = NativeEngine.times(handle)
        return TranscribedSegment(times[0], times[1], NativeEngine.tokens(handle).map { it.toInt() })
    }

    @Synchronized
    fun summary(): TranscribedSummary {
        val times = NativeEngine.times(handle)
        val language = String(NativeEngine.language(handle), Charsets.UTF_8).ifEmpty { null }
        return TranscribedSummary(language, times[6].toInt(), TranscriptTimings(times[2], times[3], times[4], times[5]))
    }

    @Synchronized
    fun read(source: FloatArray) = NativeEngine.read(handle, source)

    @Synchronized
    fun feed(token: Int, position: Int): FloatArray = NativeEngine.feed(handle, token.toLong(), position.toLong())

    /** Waits for a step that runs. */
    @Synchronized
    override fun close() {
        val last = handle
        handle = 0
        NativeEngine.close(last)
    }
}

/** A sound that is transcribed. */
internal sealed interface Sound {
    class Samples(val values: FloatArray, val rate: Int) : Sound
    class Wav(val file: File) : Sound
}
