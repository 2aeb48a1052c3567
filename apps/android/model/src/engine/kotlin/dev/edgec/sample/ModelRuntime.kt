package dev.edgec.sample

import android.content.Context
import java.io.Closeable
import java.io.File
import java.nio.ByteBuffer

/** The artifact in edgec's engine, with ExecuTorch inside. */
internal class ModelRuntime private constructor(val artifact: File) : Closeable, SchemaRuntime {
    // The decoder comes last where there is more than one method.
    private var handle = NativeEngine.open(artifact.path.toByteArray(), ModelFacts.methods.last().name.toByteArray())
    private val schemas = EngineSchemas()
    private val owned = ArrayList<Closeable>()

    /** Close another part of the engine with this one. */
    @Synchronized
    fun own(part: Closeable) {
        owned += part
    }

    /** A call of the engine for the decoder's handle, which no other call and no closing interrupts. */
    @Synchronized
    fun <T> locked(call: (Long) -> T): T = call(handle)

    /** Feed [tokens] at the positions from [start] on; the logits after the last one. */
    @Synchronized
    fun forward(tokens: LongArray, start: Long): FloatArray = NativeEngine.forward(handle, tokens, start)

    /** Write the cache and the other states to a file, to continue from them later; false if the program keeps none. */
    @Synchronized
    fun saveState(file: File): Boolean {
        val state = NativeEngine.state(handle) ?: return false
        file.outputStream().channel.use { channel -> while (state.hasRemaining()) channel.write(state) }
        return true
    }

    /** Continue from the states in a file that [saveState] wrote for the same artifact. */
    @Synchronized
    fun restoreState(file: File) {
        val state = NativeEngine.state(handle) ?: throw RuntimeDiffers("the program keeps no state")
        if (file.length() != state.remaining().toLong()) throw RuntimeDiffers("${file.name} is not a state of this model")
        file.inputStream().channel.use { channel -> fill(state, channel::read) }
    }

    /** Empty the cache and the other states. */
    @Synchronized
    fun reset() = NativeEngine.reset(handle)

    /** Add an adapter's file, made for the artifact with the sha256 [base], from the next call on; null: none. */
    @Synchronized
    fun useAdapter(file: File?, base: String) = try {
        NativeEngine.useAdapter(handle, file?.path?.toByteArray(), base.toByteArray())
    } catch (failed: EngineFailed) {
        throw AdapterRefused(failed.why)
    }

    @Synchronized
    override fun holdTo(structure: ConstrainedStructure, budget: Int): ConstrainedText {
        if (handle == 0L) throw EngineFailed("the model is closed")
        return schemas.begin(structure, budget)
    }

    /** Waits for a call that runs. */
    @Synchronized
    override fun close() {
        schemas.close()
        owned.forEach(Closeable::close)
        val last = handle
        handle = 0
        NativeEngine.close(last)
    }

    private fun fill(state: ByteBuffer, read: (ByteBuffer) -> Int) {
        while (state.hasRemaining()) if (read(state) < 0) throw RuntimeDiffers("the file of the state is cut")
    }

    companion object {
        fun open(@Suppress("UNUSED_PARAMETER") context: Context, artifact: File) = ModelRuntime(artifact)
    }
}
