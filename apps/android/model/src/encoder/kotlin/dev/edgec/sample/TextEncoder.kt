package dev.edgec.sample

import java.io.File

class TextTooLong(tokens: Int) :
    EdgecException(
        "The text has $tokens tokens; the model reads ${EncoderLimits.MOST_TOKENS}. Split it, or embed it with truncate = true.",
    )

class TextEmpty : EdgecException("The text has no tokens. Give a text.")

class PromptUnknown(name: String) :
    EdgecException("The model has no prompt $name. Name one of EncoderLimits.PROMPTS; an empty name is none.")

/** A text's [tokens], of which the first [unpooled] belong to a prompt that is read and not pooled. */
internal class ReadText(val tokens: List<Int>, val unpooled: Int)

/** Reads texts as the model's authors do: tokens, cut where asked, padded where the artifact has one length. */
internal class TextEncoder(bundle: File, runtime: ModelRuntime) {
    private val tokenizer = Tokenizer(TokenizerSteps.OF_MODEL, File(bundle, "tokenizer/tokenizer.json"))
    private val model = ModelEncoder(runtime)

    /** Token ids of a text, with those around it. */
    fun encode(text: String): List<Int> = tokenizer.encode(text, true)

    /** The tokens of a text that count, after those of the prompt of that name. */
    fun read(text: String, truncate: Boolean, promptName: String?): ReadText {
        val (before, unpooled) = prompt(promptName)
        val tokens = encode(before + text)
        if (tokens.size <= unpooled) throw TextEmpty()
        if (tokens.size <= EncoderLimits.MOST_TOKENS) return ReadText(tokens, unpooled)
        if (!truncate) throw TextTooLong(tokens.size)
        return ReadText(cut(tokens), unpooled)
    }

    /** The prompt of a name, the default's where there is none, and no prompt for an empty one. */
    private fun prompt(given: String?): Pair<String, Int> {
        val name = given ?: EncoderLimits.DEFAULT_PROMPT
        if (name.isNullOrEmpty()) return "" to 0
        val text = EncoderLimits.PROMPTS[name] ?: throw PromptUnknown(name)
        return text to (EncoderFacts.UNPOOLED[name] ?: 0)
    }

    /** The vector of a text that [read] gave. */
    fun vector(text: ReadText): FloatArray {
        val tokens = text.tokens
        val length = if (EncoderFacts.IS_PADDED) EncoderLimits.MOST_TOKENS else tokens.size
        val ids = LongArray(length) { (tokens.getOrNull(it) ?: EncoderFacts.PADDING).toLong() }
        return vector(ids, LongArray(length) { mask(it, text) })
    }

    private fun mask(place: Int, text: ReadText): Long =
        if (place < text.unpooled) EncoderFacts.READ_ONLY.toLong() else if (place < text.tokens.size) 1L else 0L

    /** The vector of the [ids] that [mask] does not hide. */
    fun vector(ids: LongArray, mask: LongArray): FloatArray {
        val vector = model.vector(mapOf("input_ids" to ids, "attention_mask" to mask))
        if (vector.size != EncoderLimits.WIDTH) throw RuntimeDiffers("a vector has ${vector.size} values")
        return vector
    }

    /** The tokens around the text stay; its own are cut at one end. */
    private fun cut(tokens: List<Int>): List<Int> {
        val (before, after) = EncoderFacts.TOKENS_BEFORE to EncoderFacts.TOKENS_AFTER
        val own = tokens.subList(before, tokens.size - after)
        val count = EncoderLimits.MOST_TOKENS - before - after
        val kept = if (EncoderFacts.CUTS_BEGINNING) own.takeLast(count) else own.take(count)
        return tokens.take(before) + kept + tokens.takeLast(after)
    }
}
