package dev.edgec.sample

/** The runtime refused the artifact or a call, or failed in it. */
class EngineFailed(val why: String) : EdgecException("edgec's engine failed: $why.")

/** edgec's engine, compiled from `src/main/cpp`. A handle is valid from [open] to [close], for one call at a time. Texts are UTF-8. */
internal object NativeEngine {
    init {
        System.loadLibrary(ModelFacts.LIBRARY)
    }

    /** Open a [bundle]'s folder with its [artifact]. Returns a handle. */
    external fun open(bundle: ByteArray, artifact: ByteArray): Long

    /** Begin a sound; the one before ends. [language] null: it is detected; [most] 0: as many tokens as fit in a window. */
    external fun begin(
        handle: Long, samples: FloatArray, rate: Int, language: ByteArray?, task: ByteArray, timestamps: Int, most: Int,
    )

    /** The same for a WAV file. */
    external fun beginFile(
        handle: Long, path: ByteArray, language: ByteArray?, task: ByteArray, timestamps: Int, most: Int,
    )

    /** Read a window or write a token; returns what came of it, by [StepProgress]. */
    external fun step(handle: Long): Int

    /** The tokens of the segment that the last step gave. */
    external fun tokens(handle: Long): LongArray

    /** Its start and end in s; the sound's length in s; ms of features, encoder and decoder; the first timestamp's id or -1. */
    external fun times(handle: Long): DoubleArray

    /** The token of the sound's language; empty where there is none. */
    external fun language(handle: Long): ByteArray

    /** Read what the encoder reads, for golden vectors. */
    external fun read(handle: Long, source: FloatArray)

    /** Feed a [token] at a [position]; the logits after it. */
    external fun feed(handle: Long, token: Long, position: Long): FloatArray

    external fun close(handle: Long)
}
