package dev.edgec.sample

/** Feeds tokens to the artifact's only method, which takes any number of them and keeps the cache itself. */
internal class ModelDecoder(private val runtime: ModelRuntime) {
    private val method = ModelFacts.methods[0]

    init {
        if (method.inputs.size != 3) throw RuntimeDiffers("${method.name} does not take tokens, positions and rows")
    }

    /** Feed 1 to `ModelLimits.PREFILL_CHUNK` tokens from position [start] on; the logits after the last one. */
    fun logits(tokens: List<Int>, start: Int): FloatArray {
        val count = tokens.size.toLong()
        val ids = LongArray(tokens.size) { tokens[it].toLong() }
        val positions = LongArray(tokens.size) { (start + it).toLong() }
        val inputs = listOf(
            ModelRuntime.integers(method.inputs[0], ids, 1, count),
            ModelRuntime.integers(method.inputs[1], positions, count),
            ModelRuntime.integers(method.inputs[2], longArrayOf(count - 1), 1),
        )
        return runtime.run(method, inputs)[0]
    }
}
