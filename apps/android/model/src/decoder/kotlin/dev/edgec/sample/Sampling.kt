package dev.edgec.sample

import kotlin.math.exp
import kotlin.random.Random

/**
 * How an answer is generated; the defaults are greedy.
 *
 * @property maxNewTokens the most tokens of the answer; null goes on to the end of the context.
 * @property temperature 0 takes the likeliest token, else logits are divided by it; 1e-12 to 1e12.
 * @property topK keep the k likeliest tokens; 0 keeps all.
 * @property topP keep the smallest set whose probability reaches p; 1 keeps all.
 * @property minP drop tokens less likely than this share of the likeliest; 0 keeps all.
 * @property repetitionPenalty makes tokens that came before less likely (arXiv:1909.05858); 1 turns it off.
 * @property seed makes the draws reproducible; null takes random ones.
 * @property stop texts that end the answer; they are not part of it.
 */
data class GenerationOptions(
    val maxNewTokens: Int? = 256,
    val temperature: Float = 0f,
    val topK: Int = 0,
    val topP: Float = 1f,
    val minP: Float = 0f,
    val repetitionPenalty: Float = TextFacts.REPETITION_PENALTY,
    val seed: Int? = null,
    val stop: List<String> = listOf(),
) {
    init {
        val ranges = mapOf(
            "maxNewTokens" to ((maxNewTokens ?: 1) > 0),
            "temperature" to (temperature == 0f || temperature in WITHIN_FLOAT),
            "topK" to (topK >= 0),
            "topP" to (topP > 0 && topP <= 1),
            "minP" to (minP >= 0 && minP <= 1),
            "repetitionPenalty" to (repetitionPenalty in WITHIN_FLOAT),
            "stop" to stop.none { it.isEmpty() },
        )
        for ((name, valid) in ranges) if (!valid) throw OptionOutOfRange(name)
    }

    private companion object {
        /** Beyond it, logits that are divided or multiplied become infinite or nothing. */
        val WITHIN_FLOAT = 1e-12f..1e12f
    }
}

/** Chooses the next token from logits: repetition penalty, temperature, top-k, top-p, min-p, in that order. */
internal class Sampler(private val options: GenerationOptions) {
    private val numbers = options.seed?.let { Random(it) } ?: Random.Default

    fun next(logits: FloatArray, seen: List<Int>): Int {
        val scores = logits.copyOf()
        if (options.repetitionPenalty != 1f) penalise(scores, seen.toSet())
        return if (options.temperature == 0f) largest(scores) else draw(scores)
    }

    private fun penalise(scores: FloatArray, seen: Set<Int>) {
        for (token in seen.filter { it in scores.indices }) {
            val score = scores[token]
            scores[token] = if (score < 0) score * options.repetitionPenalty else score / options.repetitionPenalty
        }
    }

    private fun largest(scores: FloatArray): Int {
        var best = 0
        for (index in scores.indices) if (scores[index] > scores[best]) best = index
        return best
    }

    private fun draw(scores: FloatArray): Int {
        val best = largest(scores)
        val temperature = options.temperature.toDouble()
        val weights = DoubleArray(scores.size) { exp((scores[it] - scores[best]).toDouble() / temperature) }
        val tokens = Candidates(weights).of(options)
        var rest = numbers.nextDouble() * tokens.sumOf { weights[it] }
        for (token in tokens) {
            rest -= weights[token]
            if (rest < 0) return token
        }
        return best
    }
}

/** The choice of tokens that may be drawn. The likeliest one weighs 1; the vocabulary is never sorted as a whole. */
internal class Candidates(private val weights: DoubleArray) {
    fun of(options: GenerationOptions): IntArray {
        var tokens = IntArray(weights.size) { it }
        if (options.topK > 0) tokens = head(tokens, options.topK)
        if (options.topP < 1) tokens = nucleus(tokens, options.topP)
        return if (options.minP > 0) tokens.filter { weights[it] >= options.minP }.toIntArray() else tokens
    }

    /** The fewest tokens, likeliest first, that have [share] of the weight; more are examined only where needed. */
    private fun nucleus(tokens: IntArray, share: Float): IntArray {
        val wanted = share * tokens.sumOf { weights[it] }
        var count = FEW
        while (true) {
            val first = head(tokens, count)
            var sum = 0.0
            for ((index, token) in first.withIndex()) {
                sum += weights[token]
                if (sum >= wanted) return first.copyOf(index + 1)
            }
            if (count >= tokens.size) return first
            count *= GROWTH
        }
    }

    /** The [most] likeliest tokens in order; tokens that are not likelier than the last of those are skipped. */
    private fun head(tokens: IntArray, most: Int): IntArray {
        val count = minOf(most, tokens.size)
        val kept = IntArray(2 * count)
        var size = 0
        var least = -1.0
        for (token in tokens) {
            if (!(weights[token] > least)) continue
            kept[size++] = token
            if (size == kept.size) {
                likeliest(kept, count).copyInto(kept)
                size = count
                least = weights[kept[count - 1]]
            }
        }
        return likeliest(kept.copyOf(size), count)
    }

    private fun likeliest(tokens: IntArray, count: Int): IntArray =
        tokens.sortedByDescending { weights[it] }.take(count).toIntArray()

    private companion object {
        const val FEW = 64
        const val GROWTH = 4
    }
}
