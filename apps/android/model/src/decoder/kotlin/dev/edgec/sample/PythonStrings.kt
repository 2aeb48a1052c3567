package dev.edgec.sample

/** Reads texts as Python writes them: either quote, one or three of them, with escapes or raw. */
internal class PythonStrings(private val text: String) {
    fun beginAt(place: Int): Boolean = START.matchAt(text, place) != null

    /** The text that begins at a place, and where it ends. Throws [NotACall]. */
    fun read(start: Int): Pair<String, Int> {
        val (prefix, quote) = checkNotNull(START.matchAt(text, start)).destructured
        val raw = prefix.lowercase() == "r"
        if (prefix.isNotEmpty() && !raw && prefix.lowercase() != "u") throw NotACall("an argument is not a plain text")
        val out = StringBuilder()
        var place = start + prefix.length + quote.length
        while (!text.startsWith(quote, place)) {
            val character = text.getOrNull(place) ?: throw NotACall("a text does not end")
            val line = LINE_END.matchAt(text, place)?.value
            if (character == '\u0000' || (line != null && quote.length == 1)) throw NotACall("a text does not end")
            if (character == '\\' && raw) {
                val next = LINE_END.matchAt(text, place + 1)?.value ?: text.drop(place + 1).take(1)
                out.append('\\').append(if (next in ENDS) "\n" else next)
                place += 1 + next.length
            } else if (character == '\\') {
                place = escape(place + 1, out)
            } else {
                out.append(if (line != null) '\n' else character)
                place += line?.length ?: 1
            }
        }
        return out.toString() to place + quote.length
    }

    /** Write what an escape means; returns where it ends. */
    private fun escape(place: Int, out: StringBuilder): Int {
        LINE_END.matchAt(text, place)?.let { return place + it.value.length }
        OCTAL.matchAt(text, place)?.let {
            out.append(it.value.toInt(8).toChar())
            return place + it.value.length
        }
        val mark = text.getOrNull(place) ?: throw NotACall("a text does not end")
        val size = SIZES[mark]
        if (size != null) return point(place + 1, size, out)
        if (mark == 'N') throw NotACall("a character is given by its name")
        val meant = ESCAPES[mark]
        // Python keeps the backslash of an escape that it does not know.
        if (meant == null) out.append('\\').append(mark) else out.append(meant)
        return place + 1
    }

    private fun point(place: Int, size: Int, out: StringBuilder): Int {
        val digits = text.drop(place).take(size)
        val point = digits.takeIf { it.length == size && it.all { each -> each in HEX } }?.toLong(16)
        if (point == null || point > Character.MAX_CODE_POINT) throw NotACall("an escape is not one")
        out.appendCodePoint(point.toInt())
        return place + size
    }

    private companion object {
        const val HEX = "0123456789abcdefABCDEF"
        val START = Regex("([A-Za-z]{0,2})('''|\"\"\"|'|\")")
        val LINE_END = Regex("\\r\\n|[\\r\\n]")
        val ENDS = setOf("\r\n", "\r", "\n")
        val OCTAL = Regex("[0-7]{1,3}")
        val SIZES = mapOf('x' to 2, 'u' to 4, 'U' to 8)
        val ESCAPES = mapOf(
            '\\' to '\\', '\'' to '\'', '"' to '"', 'a' to '\u0007', 'b' to '\b', 'f' to '\u000C', 'n' to '\n', 'r' to '\r',
            't' to '\t', 'v' to '\u000B',
        )
    }
}
