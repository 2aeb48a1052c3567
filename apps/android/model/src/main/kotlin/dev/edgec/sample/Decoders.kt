package dev.edgec.sample

import java.io.ByteArrayOutputStream

/** A step from tokens, as the vocabulary writes them, to text. */
internal fun interface Decoder {
    fun decode(tokens: List<String>): List<String>
}

/** Turns characters that stand for bytes back into text; a token with any other character is taken as it is. */
internal class CharactersAsBytes : Decoder {
    override fun decode(tokens: List<String>): List<String> {
        val bytes = ByteArrayOutputStream()
        for (token in tokens) {
            val known = token.mapNotNull { ByteAlphabet.bytes[it] }
            bytes.write(if (known.size == token.length) known.toByteArray() else token.toByteArray())
        }
        return listOf(Utf8.lenient(bytes.toByteArray()))
    }
}

/** Turns tokens like `<0x0A>` into bytes; bytes that are not valid text become one U+FFFD each. */
internal class ByteFallback : Decoder {
    override fun decode(tokens: List<String>): List<String> {
        val texts = ArrayList<String>()
        val bytes = ArrayList<Byte>()
        fun flush() {
            if (bytes.isEmpty()) return
            val text = Utf8.strict(bytes.toByteArray())
            if (text != null) texts += text else repeat(bytes.size) { texts += "\uFFFD" }
            bytes.clear()
        }
        for (token in tokens) {
            val byte = if (BYTE.matches(token)) token.substring(3, 5).toInt(16).toByte() else null
            if (byte != null) bytes += byte else flush()
            if (byte == null) texts += token
        }
        flush()
        return texts
    }

    private companion object {
        val BYTE = Regex("<0x[0-9A-Fa-f]{2}>")
    }
}

internal class Fuse : Decoder {
    override fun decode(tokens: List<String>): List<String> = listOf(tokens.joinToString(""))
}

/** Applies a normalizer to each token. */
internal class InEachToken(private val step: Normalizer) : Decoder {
    override fun decode(tokens: List<String>): List<String> = tokens.map(step::normalize)
}

/** Drops at most [start] and [end] of one character from the two ends of each token. */
internal class StripCharacter(private val character: Char, private val start: Int, private val end: Int) : Decoder {
    override fun decode(tokens: List<String>): List<String> = tokens.map { token ->
        val begun = token.drop(token.take(start).takeWhile { it == character }.length)
        begun.dropLast(begun.takeLast(end).takeLastWhile { it == character }.length)
    }
}

internal class MetaspaceAsSpace(private val space: Char, private val dropsFirst: Boolean) : Decoder {
    override fun decode(tokens: List<String>): List<String> = tokens.mapIndexed { index, token ->
        if (index == 0 && dropsFirst) token.filter { it != space } else token.replace(space, ' ')
    }
}

/** Puts a space before every token that does not continue a word. */
internal class WordPieces(private val prefix: String, private val tidies: Boolean) : Decoder {
    override fun decode(tokens: List<String>): List<String> = tokens.mapIndexed { index, token ->
        val text = if (index == 0) token else if (token.startsWith(prefix)) token.removePrefix(prefix) else " $token"
        if (tidies) TIDIED.fold(text) { done, (old, new) -> done.replace(old, new) } else text
    }

    private companion object {
        val TIDIED = listOf(
            " ." to ".", " ?" to "?", " !" to "!", " ," to ",", " ' " to "'", " n't" to "n't", " 'm" to "'m",
            " do not" to " don't", " 's" to "'s", " 've" to "'ve", " 're" to "'re",
        )
    }
}

/** Puts a space after every end of a word, except at the end of the text. */
internal class WordEnds(private val suffix: String) : Decoder {
    override fun decode(tokens: List<String>): List<String> = tokens.mapIndexed { index, token ->
        token.replace(suffix, if (index == tokens.lastIndex) "" else " ")
    }
}

/** Decodes bytes as Unicode recommends, which platforms follow to different degrees. */
internal object Utf8 {
    /** The text, in which each longest incomplete beginning of a character becomes one U+FFFD. */
    fun lenient(bytes: ByteArray): String = decoded(bytes) { it.append('\uFFFD') }

    fun strict(bytes: ByteArray): String? {
        var valid = true
        return decoded(bytes) { valid = false }.takeIf { valid }
    }

    private fun decoded(bytes: ByteArray, broken: (StringBuilder) -> Unit): String {
        val text = StringBuilder(bytes.size)
        var at = 0
        while (at < bytes.size) {
            val first = bytes[at].toInt() and 255
            val length = length(first)
            var good = 1
            while (good < length && at + good < bytes.size && continues(first, good, bytes[at + good].toInt() and 255)) good++
            if (length > 0 && good == length) text.append(String(bytes, at, length, Charsets.UTF_8)) else broken(text)
            at += good
        }
        return text.toString()
    }

    private fun length(first: Int): Int = when (first) {
        in 0x00..0x7F -> 1
        in 0xC2..0xDF -> 2
        in 0xE0..0xEF -> 3
        in 0xF0..0xF4 -> 4
        else -> 0
    }

    /** Whether a byte continues a character; narrower second bytes exclude overlong forms, surrogates and U+110000 up. */
    private fun continues(first: Int, place: Int, byte: Int): Boolean = byte in when {
        place > 1 -> 0x80..0xBF
        first == 0xE0 -> 0xA0..0xBF
        first == 0xED -> 0x80..0x9F
        first == 0xF0 -> 0x90..0xBF
        first == 0xF4 -> 0x80..0x8F
        else -> 0x80..0xBF
    }
}
