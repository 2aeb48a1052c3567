package dev.edgec.sample

/**
 * How long an answer took, measured in this process, from when its turn came.
 *
 * @property promptTokens tokens of the whole prompt; those that the cache held already were not computed again.
 * @property tokensPerSecond from the first token to the last; null where there is only one.
 */
data class AnswerTimings(
    val promptTokens: Int,
    val newTokens: Int,
    val firstTokenMs: Double,
    val tokensPerSecond: Double?,
)

/** Notes when tokens come. */
internal class Stopwatch {
    private val begin = System.nanoTime()
    private var first = 0L
    private var last = 0L
    private var tokens = 0

    fun tokenCame() {
        last = System.nanoTime()
        if (tokens == 0) first = last
        tokens += 1
    }

    /** After the first token. */
    fun timings(promptTokens: Int): AnswerTimings {
        val seconds = 1e-9 * (last - first)
        val speed = if (tokens > 1 && seconds > 0) (tokens - 1) / seconds else null
        return AnswerTimings(promptTokens, tokens, 1e-6 * (first - begin), speed)
    }
}
