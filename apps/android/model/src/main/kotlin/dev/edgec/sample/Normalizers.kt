package dev.edgec.sample

/** A step that changes a text before it is split. */
internal fun interface Normalizer {
    fun normalize(text: String): String
}

/** All white space characters of Unicode. */
internal val SPACES: Set<Char> =
    (('\t'..'\r') + ' ' + '\u0085' + '\u00A0' + '\u1680' + ('\u2000'..'\u200A') + '\u2028' + '\u2029' + '\u202F' + '\u205F' + '\u3000')
        .toSet()

internal class Prepend(private val beginning: String) : Normalizer {
    override fun normalize(text: String): String = if (text.isEmpty()) text else beginning + text
}

internal class ReplaceText(private val old: String, private val new: String) : Normalizer {
    override fun normalize(text: String): String = text.replace(old, new)
}

internal class ReplacePattern(private val pattern: TextPattern, private val new: String) : Normalizer {
    override fun normalize(text: String): String =
        pattern.spans(text).joinToString("") { if (it.matches) new else text.substring(it.start, it.end) }
}

/** Puts a space on both sides of each match. */
internal class SpacesAround(private val pattern: TextPattern) : Normalizer {
    override fun normalize(text: String): String = pattern.spans(text).joinToString("") {
        val part = text.substring(it.start, it.end)
        if (it.matches) " $part " else part
    }
}

internal class StripSpaces(private val sides: Sides) : Normalizer {
    override fun normalize(text: String): String {
        val begun = if (sides.left) text.trimStart { it in SPACES } else text
        return if (sides.right) begun.trimEnd { it in SPACES } else begun
    }
}

internal class UnicodeForm(private val form: java.text.Normalizer.Form) : Normalizer {
    override fun normalize(text: String): String = java.text.Normalizer.normalize(text, form)
}

/** Replaces or removes single characters: `from:to.to` in hexadecimal code points, separated by commas. */
internal class CharacterMap(table: List<String>) : Normalizer {
    private val changed = HashMap<Int, String>()

    init {
        for (entry in table.joinToString("").split(',')) {
            val (from, to) = entry.split(':')
            val points = to.split('.').filter { it.isNotEmpty() }.map { it.toInt(16) }.toIntArray()
            changed[from.toInt(16)] = String(points, 0, points.size)
        }
    }

    override fun normalize(text: String): String {
        val out = StringBuilder(text.length)
        var at = 0
        while (at < text.length) {
            val point = text.codePointAt(at)
            changed[point]?.let { out.append(it) } ?: out.appendCodePoint(point)
            at += Character.charCount(point)
        }
        return out.toString()
    }
}

/** Replaces every byte of the text by the printable character that stands for it. */
internal class BytesAsCharacters : Normalizer {
    override fun normalize(text: String): String {
        val bytes = text.toByteArray()
        return String(CharArray(bytes.size) { ByteAlphabet.characters[bytes[it].toInt() and 255] })
    }
}

/** GPT-2's printable characters for the 256 bytes. */
internal object ByteAlphabet {
    private val printable = ('!'..'~') + ('\u00A1'..'\u00AC') + ('\u00AE'..'\u00FF')
    private val others = (0..255).filter { it.toChar() !in printable }

    val characters = CharArray(256) { byte -> others.indexOf(byte).let { if (it < 0) byte.toChar() else (256 + it).toChar() } }
    val bytes: Map<Char, Byte> = characters.withIndex().associate { (byte, character) -> character to byte.toByte() }
}
