package dev.edgec.sample

import java.nio.ByteBuffer

/** The runtime refused the artifact or a call, or failed in it. */
class EngineFailed(val why: String) : EdgecException("edgec's engine failed: $why.")

/** edgec's engine, compiled from `src/main/cpp`. A handle is valid from [open] to [close], for one call at a time. */
internal object NativeEngine {
    init {
        System.loadLibrary(ModelFacts.LIBRARY)
    }

    /** Open the [method] of an [artifact]; both are UTF-8. Returns a handle. */
    external fun open(artifact: ByteArray, method: ByteArray): Long

    /** Feed [tokens] at the positions from [start] on; the logits after the last one. */
    external fun forward(handle: Long, tokens: LongArray, start: Long): FloatArray

    /** The memory of the cache and of other states, until the handle is closed; null if the program keeps none. */
    external fun state(handle: Long): ByteBuffer?

    /** Empty the cache and the other states. */
    external fun reset(handle: Long)

    /** Add the adapter in a [file] that was made for the artifact with the sha256 [base]; both are UTF-8. Null: none. */
    external fun useAdapter(handle: Long, file: ByteArray?, base: ByteArray)

    external fun close(handle: Long)

    /** Open a compiled schema or the like with the bytes of the tokens, both files by their UTF-8 paths. Returns a handle. */
    external fun openSchema(grammar: ByteArray, vocabulary: ByteArray): Long

    /**
     * Begin a text of at most [budget] tokens that is held to a [schema]; one of `Int.MAX_VALUE` is never closed before its
     * tokens run out. Returns a handle of the text.
     */
    external fun beginText(schema: Long, budget: Int): Long

    /** Set the [logits] of all tokens that may not come next in a [text] to -infinity. */
    external fun maskLogits(text: Long, logits: FloatArray)

    /** Move a [text] on by a [token] that its mask leaves; returns how far it has come, by [TextProgress]. */
    external fun takeToken(text: Long, token: Int): Int

    external fun closeText(text: Long)

    /** Texts of the [schema] stay open. */
    external fun closeSchema(schema: Long)
}
