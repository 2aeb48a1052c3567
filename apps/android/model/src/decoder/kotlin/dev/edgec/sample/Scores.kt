package dev.edgec.sample

import kotlin.math.exp
import kotlin.math.ln
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive

/**
 * How likely a [text] is after a prompt.
 *
 * @property logprob the sum of its tokens' log-probabilities, in nats, at most 0.
 * @property tokens how many it has; `logprob / tokens` compares texts of different lengths.
 * @property greedy whether each token is the likeliest after those before it.
 */
data class ContinuationScore(val text: String, val logprob: Double, val tokens: Int, val greedy: Boolean)

/**
 * How likely each of the [continuations] is after the [prompt], which is taken as it is; for choices among them.
 *
 * Prompt and continuation become tokens separately, so a continuation begins with the space that it needs. All are
 * checked before the first is computed.
 */
suspend fun EdgecModel.score(prompt: String, continuations: List<String>): List<ContinuationScore> = exclusively {
    val asked = tokenization.encode(prompt)
    val read = continuations.map { it to tokenization.encode(it, false) }
    for ((_, ids) in read) checkScored(asked, ids)
    read.map { (text, ids) -> Scoring(session).score(text, asked, ids) }
}

private fun checkScored(prompt: List<Int>, ids: List<Int>) {
    if (prompt.isEmpty()) throw EdgecException("The prompt has no tokens.")
    if (ids.isEmpty()) throw EdgecException("A continuation has no tokens.")
    val all = prompt.size + ids.size
    if (all > ModelLimits.CONTEXT) throw PromptTooLong(all, ModelLimits.CONTEXT)
    for (id in ids) if (id !in 0 until ModelLimits.VOCABULARY) throw TokenUnknown(id)
}

private class Scoring(private val session: Session) {
    suspend fun score(text: String, prompt: List<Int>, ids: List<Int>): ContinuationScore {
        val tokens = prompt.toMutableList()
        val context = currentCoroutineContext()
        session.begin(prompt) { context.ensureActive() }
        var logprob = 0.0
        var greedy = true
        for (id in ids) {
            val logits = session.prefill(tokens) { context.ensureActive() }
            val best = likeliest(logits)
            logprob += logits[id].toDouble() - logits[best] - ln(logits.sumOf { exp(it.toDouble() - logits[best]) })
            greedy = greedy && best == id
            tokens += id
        }
        return ContinuationScore(text, logprob, ids.size, greedy)
    }

    /** The first of the likeliest tokens. */
    private fun likeliest(logits: FloatArray): Int {
        var best = 0
        for (index in logits.indices) if (logits[index] > logits[best]) best = index
        return best
    }
}
