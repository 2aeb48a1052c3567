package dev.edgec.sample

/** Feeds tokens to the artifact's only method, which takes any number of them; the engine keeps the cache. */
internal class ModelDecoder(private val runtime: ModelRuntime) {
    /** Feed 1 to `ModelLimits.PREFILL_CHUNK` tokens from position [start] on; the logits after the last one. */
    fun logits(tokens: List<Int>, start: Int): FloatArray =
        runtime.forward(LongArray(tokens.size) { tokens[it].toLong() }, start.toLong())
}
