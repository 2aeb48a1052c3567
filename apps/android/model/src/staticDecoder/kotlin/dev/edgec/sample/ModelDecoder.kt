package dev.edgec.sample

/** The valid rows of a call: the first [count] of [all], for the slots from [start] on; the rest is padding. */
internal class Rows(val all: Int, val count: Int, val start: Int)

/**
 * Feeds tokens to two methods of fixed shape: `prefill` takes a padded chunk, `decode` one token.
 *
 * Keys and values are held here: the methods read them and return rows, which go to the slots of their positions.
 */
internal class ModelDecoder(private val runtime: ModelRuntime) {
    private val prefill = method("prefill")
    private val decode = method("decode")
    private val chunk = prefill.inputs.first { it.name == "tokens" }.shape.last().toInt()
    private val states = decode.inputs.filter { it.name !in CALL }.associate { it.name to StateSize(it) }
    // States that get rows; a recurrence's gets all of its values anew, and holds any number of tokens.
    private val slots = states.filterKeys { name -> decode.outputs.any { it.name == "new_$name" } }
        .values.minOfOrNull { it.slots } ?: Int.MAX_VALUE

    /** Feed 1 to `ModelLimits.PREFILL_CHUNK` tokens from position [start] on; the logits after the last one. */
    fun logits(tokens: List<Int>, start: Int): FloatArray {
        // A chunk whose padding would reach past the end of the cache is fed token by token.
        if (tokens.size in 2..chunk && start + chunk <= slots) {
            return step(prefill, tokens + List(chunk - tokens.size) { 0 }, Rows(chunk, tokens.size, start))
        }
        var logits = FloatArray(0)
        for ((offset, token) in tokens.withIndex()) logits = step(decode, listOf(token), Rows(1, 1, start + offset))
        return logits
    }

    private fun step(method: MethodFacts, tokens: List<Int>, rows: Rows): FloatArray {
        val call = listOf(tokens, listOf(rows.start), listOf(rows.count - 1))
        val numbers = call.map { row -> LongArray(row.size) { row[it].toLong() } }
        return runtime.step(method, CALL.zip(numbers).toMap(), states, rows)
    }

    private fun method(name: String): MethodFacts =
        ModelFacts.methods.firstOrNull { it.name == name } ?: throw RuntimeDiffers("there is no method $name")

    private companion object {
        val CALL = listOf("tokens", "start", "last")
    }
}
