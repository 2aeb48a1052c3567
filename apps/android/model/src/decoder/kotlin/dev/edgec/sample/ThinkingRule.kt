package dev.edgec.sample

/** Whether a message's reasoning may still begin, is being written, or is over. */
internal enum class ThinkingPhase { START, THINK, ANSWER }

/**
 * What holds the answer of a message of at most [tokens] tokens; [isText]: it is whole where what holds it is.
 *
 * @property begin begins an answer of at most so many tokens, after reasoning or without.
 */
internal class ConstrainedAnswer(val tokens: Int, val isText: Boolean, val begin: (Int, Boolean) -> ConstrainedText)

/**
 * Holds the reasoning of a message to a [budget] of tokens, and what follows it to an [answer]'s structure; no token of
 * [awaited] ends the message within the reasoning.
 */
internal class ThinkingRule(
    private val notation: ThinkingNotation?,
    private val budget: Int?,
    private var phase: ThinkingPhase,
    private val awaited: Set<Int>,
    private val decode: (List<Int>) -> String,
    private val answer: ConstrainedAnswer? = null,
) : ConstrainedText {
    private var run = listOf<Int>()
    private var thought = 0
    private var left = answer?.tokens ?: 0
    private var forced = listOf<Int>()
    private var held: ConstrainedText? = null

    /** Whether what was written before it is known to be reasoning may be the answer. */
    private var fits = true
    private var onwardFits = false

    init {
        if (phase == ThinkingPhase.THINK) think() else hold(false)
    }

    override val progress: TextProgress
        get() {
            val inside = phase == ThinkingPhase.ANSWER || (phase == ThinkingPhase.START && fits)
            val progress = held?.progress?.takeIf { inside } ?: TextProgress.OPEN
            return if (progress == TextProgress.ENDED || answer?.isText == true) progress else TextProgress.OPEN
        }

    override fun mask(logits: FloatArray) {
        val next = forced.firstOrNull()
        if (next != null) {
            leaveOnly(next, logits)
        } else if (phase == ThinkingPhase.THINK) {
            for (token in awaited) if (token in logits.indices) logits[token] = Float.NEGATIVE_INFINITY
        } else if (phase == ThinkingPhase.ANSWER) {
            held?.mask(logits)
        } else {
            held?.let { maskFirst(logits, it) }
        }
    }

    /** Allow what the answer may be, and the token that goes on with the marker of reasoning. */
    private fun maskFirst(logits: FloatArray, held: ConstrainedText) {
        val onward = onward()
        val own = onward?.let { logits[it] }
        if (fits) held.mask(logits) else logits.fill(Float.NEGATIVE_INFINITY)
        if (onward == null || own == null) return
        onwardFits = logits[onward] != Float.NEGATIVE_INFINITY
        logits[onward] = own
    }

    private fun onward(): Int? {
        val path = notation?.openTokens.orEmpty()
        return if (run == path.take(run.size)) path.getOrNull(run.size) else null
    }

    override fun take(token: Int) {
        left--
        if (forced.isNotEmpty()) {
            forced = forced.drop(1)
            if (forced.isEmpty()) answer()
        } else if (phase == ThinkingPhase.THINK) {
            takeThought(token)
        } else if (phase == ThinkingPhase.START) {
            takeFirst(token)
        } else {
            held?.take(token)
        }
    }

    /** Take a token before it is known whether the message begins with reasoning. */
    private fun takeFirst(token: Int) {
        val open = checkNotNull(notation).open
        fits = held == null || (fits && (token != onward() || onwardFits))
        if (fits) held?.take(token)
        run = run + token
        val text = decode(run).pythonTrimStart()
        if (text.startsWith(open)) {
            think()
        } else if (!open.startsWith(text)) {
            phase = ThinkingPhase.ANSWER
            run = listOf()
        } else if (text.isEmpty()) {
            run = listOf()
        }
    }

    private fun takeThought(token: Int) {
        val close = checkNotNull(notation).close
        thought++
        run = (run + token).takeLast(close.length + 1)
        if (close in decode(run)) answer() else closeInTime()
    }

    private fun think() {
        phase = ThinkingPhase.THINK
        run = listOf()
        close()
        closeInTime()
    }

    private fun closeInTime() {
        if (budget != null && thought >= budget) forced = checkNotNull(notation).closeTokens
    }

    private fun answer() {
        phase = ThinkingPhase.ANSWER
        run = listOf()
        hold(true)
    }

    private fun hold(thought: Boolean) {
        close()
        fits = true
        held = answer?.begin?.invoke(maxOf(left, 1), thought)
    }

    override fun close() {
        held?.close()
        held = null
    }
}
