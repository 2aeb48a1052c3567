package dev.edgec.sample

/** A text that is not the call that it was opened as. */
internal class NotACall(val why: String) : Exception(why)

/** A JSON value, whose text is JSON; numbers stay as they are written. */
internal sealed interface JsonValue {
    class Text(val text: String) : JsonValue {
        override fun toString() = JsonText.quoted(text)
    }

    /** A number, true, false or null. */
    class Word(val text: String) : JsonValue {
        override fun toString() = text
    }

    class Items(val items: List<JsonValue>) : JsonValue {
        override fun toString() = items.joinToString(", ", "[", "]")
    }

    class Fields(val fields: Map<String, JsonValue>) : JsonValue {
        override fun toString() =
            fields.entries.joinToString(", ", "{", "}") { (name, value) -> "${JsonText.quoted(name)}: $value" }
    }
}

/** Reads JSON as strictly as edgec does in Python: no NaN, nothing endless, nothing behind the value. */
internal class JsonText private constructor(private val text: String) {
    private var place = 0

    private fun whole(): JsonValue {
        val value = value(0)
        skip()
        if (place < text.length) fail("something follows the value")
        return value
    }

    private fun value(depth: Int): JsonValue {
        skip()
        return when (text.getOrNull(place)) {
            '"' -> JsonValue.Text(string())
            '{' -> JsonValue.Fields(fields(depth + 1))
            '[' -> JsonValue.Items(items(depth + 1))
            else -> word()
        }
    }

    private fun fields(depth: Int): Map<String, JsonValue> {
        val fields = LinkedHashMap<String, JsonValue>()
        place++
        if (taken('}')) return fields
        checkDepth(depth)
        do {
            skip()
            if (text.getOrNull(place) != '"') fail("a key is missing")
            val name = string()
            if (!taken(':')) fail("a colon is missing")
            fields[name] = value(depth)
        } while (taken(','))
        if (!taken('}')) fail("} is missing")
        return fields
    }

    private fun items(depth: Int): List<JsonValue> {
        val items = ArrayList<JsonValue>()
        place++
        if (taken(']')) return items
        checkDepth(depth)
        do items += value(depth) while (taken(','))
        if (!taken(']')) fail("] is missing")
        return items
    }

    private fun checkDepth(depth: Int) {
        if (depth > DEEPEST) fail("it is nested too deeply")
    }

    private fun word(): JsonValue {
        val word = WORD.matchAt(text, place)?.value ?: fail("a value is missing")
        place += word.length
        if (word.last().isDigit()) check(word)
        return JsonValue.Word(word)
    }

    private fun check(number: String) {
        val whole = number.all { it.isDigit() || it == '-' }
        if (whole && number.removePrefix("-").length > MOST_DIGITS) fail("a number has more than $MOST_DIGITS digits")
        if (!number.toDouble().isFinite()) fail("a number is too large")
    }

    private fun string(): String {
        val out = StringBuilder()
        place++
        while (true) {
            val character = text.getOrNull(place++) ?: fail("a text does not end")
            when {
                character == '"' -> break
                character < ' ' -> fail("a text holds a control character")
                character == '\\' -> out.append(escaped())
                else -> out.append(character)
            }
        }
        if (hasHalf(out)) fail("a text holds half a character")
        return out.toString()
    }

    private fun escaped(): Char {
        val mark = text.getOrNull(place++) ?: fail("a text does not end")
        if (mark != 'u') return ESCAPES[mark] ?: fail("there is no escape \\$mark")
        val digits = text.drop(place).take(4)
        if (digits.length < 4 || !digits.all { it in '0'..'9' || it in 'a'..'f' || it in 'A'..'F' }) fail("\\u needs four digits")
        place += 4
        return digits.toInt(16).toChar()
    }

    private fun taken(character: Char): Boolean {
        skip()
        if (text.getOrNull(place) != character) return false
        place++
        return true
    }

    private fun skip() {
        while (place < text.length && text[place] in " \t\n\r") place++
    }

    companion object {
        private const val DEEPEST = 200
        private const val MOST_DIGITS = 40
        private val WORD = Regex("true|false|null|-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")
        private val ESCAPES = mapOf(
            '"' to '"', '\\' to '\\', '/' to '/', 'b' to '\b', 'f' to '\u000C', 'n' to '\n', 'r' to '\r', 't' to '\t',
        )

        /** The value of a text. Throws [NotACall]. */
        fun parse(text: String): JsonValue = JsonText(text.removePrefix("\uFEFF")).whole()

        /** A text as a JSON string. */
        fun quoted(text: String): String = text.map { character ->
            val mark = ESCAPES.entries.firstOrNull { it.value == character && it.key != '/' }?.key
            if (mark != null) "\\$mark" else if (character < ' ') "\\u%04x".format(character.code) else character.toString()
        }.joinToString("", "\"", "\"")

        fun fail(why: String): Nothing = throw NotACall(why)

        /** Whether a text holds one half of a surrogate pair without the other. */
        fun hasHalf(text: CharSequence): Boolean = text.toString().codePoints().anyMatch { it in 0xD800..0xDFFF }
    }
}
