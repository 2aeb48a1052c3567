package dev.edgec.sample

/** Keeps track of the tokens in the cache and of the images among them, and feeds the decoder to make it hold others. */
internal class Session(private val runtime: ModelRuntime) {
    private val decoder = ModelDecoder(runtime)
    private val vision = Vision(runtime, runtime.artifact).also(runtime::own)
    private val cached = ArrayList<Int>()
    private var next: Pair<List<Int>, List<Pixels>>? = null

    /**
     * The tokens of a text about images, which are decoded and checked; [begin] lets the model see them.
     * [rendered]: a chat template wrote the text.
     */
    fun prompt(text: String, images: List<ModelImage>, rendered: Boolean, tokenization: Tokenization): List<Int> {
        next = null
        if (images.size.toLong() * ImageLimits.TILE_TOKENS + 1 > ModelLimits.CONTEXT) {
            throw ImagesTooMany("${images.size} take more than its ${ModelLimits.CONTEXT} tokens")
        }
        val pixels = images.map(ImageReader::pixels)
        val begun = rendered && VisionFacts.BEGINS.isNotEmpty() && text.startsWith(VisionFacts.BEGINS)
        val tokens = tokenization.encode(vision.write(text, pixels), VisionFacts.SPECIAL_TOKENS && !begun)
        next = tokens to pixels
        return tokens
    }

    /** Begin an answer: the images of its [prompt] take their places, and those of an earlier one are forgotten. */
    fun begin(prompt: List<Int>, goOn: () -> Unit = {}) {
        val images = next?.takeIf { it.first == prompt }?.second.orEmpty()
        next = null
        check(prompt)
        vision.see(images, goOn)
        keep(vision.place(prompt))
    }

    /** The same for the prompt of a golden vector, whose image is a made-up tile. */
    fun beginProbe(prompt: List<Int>) {
        if (VisionFacts.IMAGE_TOKEN !in prompt) return begin(prompt)
        vision.seeProbe()
        keep(vision.place(prompt))
    }

    /**
     * Make the cache hold [tokens] without recomputing what it holds already; returns the logits after the last.
     * [goOn] is called before each call of the model, and may end it.
     */
    fun prefill(tokens: List<Int>, goOn: () -> Unit = {}): FloatArray {
        check(tokens)
        var start = reusable(tokens)
        for (token in tokens.subList(start, tokens.size)) if (token !in 0 until ModelLimits.VOCABULARY) throw TokenUnknown(token)
        cached.subList(start, cached.size).clear()
        var logits = FloatArray(0)
        while (start < tokens.size) {
            goOn()
            val end = start + callSize(start, tokens.size)
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

    private fun check(tokens: List<Int>) {
        if (tokens.isEmpty()) throw EdgecException("The prompt has no tokens.")
        if (tokens.size > ModelLimits.CONTEXT) throw PromptTooLong(tokens.size, ModelLimits.CONTEXT)
    }

    /** As many tokens as a call takes that holds all that they see. */
    private fun callSize(start: Int, end: Int): Int {
        val size = runtime.locked { NativeVision.callSize(it, start.toLong(), end.toLong()) }.toInt()
        if (size < 1) throw PromptNotWhole("a call takes ${ModelLimits.PREFILL_CHUNK} tokens")
        return minOf(size, ModelLimits.PREFILL_CHUNK)
    }

    private fun keep(tokens: Int) {
        if (tokens >= cached.size) return
        cached.subList(if (TextFacts.CAN_REWIND) tokens else 0, cached.size).clear()
    }

    private fun reusable(tokens: List<Int>): Int {
        val most = minOf(cached.size, tokens.size - 1)
        var kept = 0
        while (kept < most && cached[kept] == tokens[kept]) kept++
        return if (TextFacts.CAN_REWIND || kept == cached.size) kept else 0
    }
}
