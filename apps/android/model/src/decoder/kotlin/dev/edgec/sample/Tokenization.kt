package dev.edgec.sample

import java.io.File

/** The bundle's tokenizer. */
internal class Tokenization(bundle: File) {
    private val tokenizer = Tokenizer(TokenizerSteps.OF_MODEL, File(bundle, "tokenizer/tokenizer.json"))

    /** Token ids with the tokenizer's own leading tokens. */
    fun encode(text: String): List<Int> = encode(text, true)

    /** Token ids, with the tokenizer's own leading tokens or without. */
    fun encode(text: String, special: Boolean): List<Int> = tokenizer.encode(text, special)

    /** A conversation up to where the assistant answers. */
    fun encode(messages: List<ChatMessage>): List<Int> = tokenizer.encode(ChatPrompt.render(messages), false)

    /** A conversation in the pieces of a prompt for [reply], or by the template with these switches. */
    fun encode(messages: List<ChatMessage>, pieces: PromptPieces?, switches: Map<String, Boolean>): List<Int> =
        tokenizer.encode(pieces?.render(messages) ?: ChatPrompt.whole(messages, switches), false)

    fun decode(tokens: List<Int>): String = tokenizer.decode(tokens)

    /** The text of token ids with the markers of the template's notations, and without other special tokens. */
    fun decodeMarked(tokens: List<Int>): String =
        tokenizer.decode(tokens.filter { token -> ReplyFacts.hidden.none { token in it } }, true)
}
