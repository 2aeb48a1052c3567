package dev.edgec.sample

/** Keeps track of the tokens in the cache, and feeds the decoder to make it hold others. */
internal class Session(runtime: ModelRuntime) {
    private val decoder = ModelDecoder(runtime)
    private val cached = ArrayList<Int>()

    /** Begin an answer: there are no images that take their places in the [prompt]. */
    @Suppress("UNUSED_PARAMETER")
    fun begin(prompt: List<Int>, goOn: () -> Unit = {}) = Unit

    /** The same for the prompt of a golden vector. */
    fun beginProbe(prompt: List<Int>) = begin(prompt)

    /**
     * Make the cache hold [tokens] without recomputing what it holds already; returns the logits after the last.
     * [goOn] is called before each call of the model, and may end it.
     */
    fun prefill(tokens: List<Int>, goOn: () -> Unit = {}): FloatArray {
        if (tokens.isEmpty()) throw EdgecException("The prompt has no tokens.")
        if (tokens.size > ModelLimits.CONTEXT) throw PromptTooLong(tokens.size, ModelLimits.CONTEXT)
        var start = reusable(tokens)
        for (token in tokens.subList(start, tokens.size)) if (token !in 0 until ModelLimits.VOCABULARY) throw TokenUnknown(token)
        cached.subList(start, cached.size).clear()
        var logits = FloatArray(0)
        while (start < tokens.size) {
            goOn()
            val end = minOf(start + ModelLimits.PREFILL_CHUNK, tokens.size)
            // A call that fails may have changed what cannot be taken back.
            if (!TextFacts.CAN_REWIND) cached.clear()
            logits = decoder.logits(tokens.subList(start, end), start)
            cached += tokens.subList(cached.size, end)
            start = end
        }
        return logits
    }

    /** Start over; positions hide what the cache holds until it is overwritten. */
    fun reset() = cached.clear()

    private fun reusable(tokens: List<Int>): Int {
        val most = minOf(cached.size, tokens.size - 1)
        var kept = 0
        while (kept < most && cached[kept] == tokens[kept]) kept++
        return if (TextFacts.CAN_REWIND || kept == cached.size) kept else 0
    }
}

/** The tokens of a conversation up to where the assistant answers. */
internal fun EdgecModel.prompt(messages: List<ChatMessage>): List<Int> = tokenization.encode(messages)

/** The same in the [pieces] of a prompt, else by the template with these [switches]. */
internal fun EdgecModel.prompt(messages: List<ChatMessage>, pieces: PromptPieces?, switches: Map<String, Boolean>): List<Int> =
    tokenization.encode(messages, pieces, switches)
