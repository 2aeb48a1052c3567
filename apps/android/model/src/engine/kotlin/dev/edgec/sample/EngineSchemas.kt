package dev.edgec.sample

import java.io.Closeable
import java.io.File

/** Compiled structures in edgec's engine, such as the bundle's schemas, each opened when it is first asked for. */
internal class EngineSchemas : Closeable {
    private val opened = HashMap<File, Long>()

    /** Begin a text of at most [budget] tokens that is held to a structure. */
    fun begin(structure: ConstrainedStructure, budget: Int): ConstrainedText {
        try {
            val handle = opened.getOrPut(structure.grammar) {
                NativeEngine.openSchema(structure.grammar.path.toByteArray(), structure.vocabulary.path.toByteArray())
            }
            return EngineText(NativeEngine.beginText(handle, budget))
        } catch (failed: EngineFailed) {
            throw structure.refusal(failed.why)
        }
    }

    /** Texts that were begun keep their structure. */
    override fun close() {
        opened.values.forEach(NativeEngine::closeSchema)
        opened.clear()
    }
}

/** A text of the engine, for one call at a time. */
private class EngineText(private var handle: Long) : ConstrainedText {
    override var progress = TextProgress.OPEN
        private set

    override fun mask(logits: FloatArray) = NativeEngine.maskLogits(handle, logits)

    override fun take(token: Int) {
        progress = TextProgress.entries[NativeEngine.takeToken(handle, token)]
    }

    override fun close() {
        val last = handle
        handle = 0
        NativeEngine.closeText(last)
    }
}
