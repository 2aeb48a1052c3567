package dev.edgec.sample

import java.io.File

/** A part of a text on its way to tokens; [token] is set once it is one. */
internal class Piece(val text: String, val atStart: Boolean, val token: Int? = null)

/** The steps from text to tokens and back, in the order of tokenizer.json; `TokenizerSteps` reads this model's. */
internal interface TokenizerPlan {
    val normalizers: List<Normalizer>
    val splitters: List<Splitter>
    val decoders: List<Decoder>

    /** Ids that are put before and after a text. */
    val before: List<Int>
    val after: List<Int>

    fun model(file: TokenizerFile): TokenModel
}

/** Turns the words that the splitters leave into ids. */
internal interface TokenModel {
    fun ids(word: String): IntArray

    /** The token of an id, as written in the vocabulary. */
    fun text(id: Int): String?
}

/** Does in Kotlin, without a native library, what Hugging Face's `tokenizers` does with the same tokenizer.json. */
internal class Tokenizer(private val plan: TokenizerPlan, path: File) {
    private val file = TokenizerFile.read(path)
    private val model = plan.model(file)
    private val added = AddedTokens(file.added, ::normalized)

    /** Token ids of a text; [special]: with the ids that are put around every text. */
    fun encode(text: String, special: Boolean): List<Int> {
        var pieces = added.split(wellFormed(text))
        for (splitter in plan.splitters) pieces = pieces.flatMap { if (it.token == null) splitter.split(it) else listOf(it) }
        val ids = ArrayList<Int>()
        for (piece in pieces) {
            if (piece.token != null) ids += piece.token else model.ids(piece.text).forEach { ids += it }
        }
        return if (special) plan.before + ids + plan.after else ids
    }

    /** The text of token ids; left out are special tokens unless [special], and ids that the vocabulary lacks. */
    fun decode(tokens: List<Int>, special: Boolean = false): String {
        val texts = tokens.mapNotNull { added.text(it) ?: model.text(it) }.filter { special || it !in added.special }
        if (plan.decoders.isEmpty()) return texts.joinToString(" ")
        return plan.decoders.fold(texts) { decoded, decoder -> decoder.decode(decoded) }.joinToString("")
    }

    private fun normalized(text: String): String = plan.normalizers.fold(text) { done, step -> step.normalize(done) }

    /** The text with U+FFFD in place of lone halves of surrogate pairs, which are not characters. */
    private fun wellFormed(text: String): String {
        if (text.none { it.isSurrogate() }) return text
        val points = text.codePoints().map { if (it in 0xD800..0xDFFF) 0xFFFD else it }.toArray()
        return String(points, 0, points.size)
    }
}
