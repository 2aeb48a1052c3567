package dev.edgec.sample

/** `call:NAME{key:value,...}`, with bare keys and [quote] on both sides of a text. */
internal class GemmaCall(private val quote: String) : CallBody {
    override fun read(text: String): List<WrittenCall> {
        val whole = text.pythonTrim()
        val head = whole.substringBefore('{')
        if ('{' !in whole || !head.startsWith("call:")) throw NotACall("a call is call:NAME{...}")
        val reader = GemmaReader(whole.drop(head.length), quote)
        val arguments = reader.value(0) as JsonValue.Fields
        if (!reader.ended) throw NotACall("something follows the call")
        return listOf(WrittenCall(head.removePrefix("call:").pythonTrim(), arguments))
    }
}

/** Reads values of the notation from a text. */
private class GemmaReader(private val text: String, private val quote: String) {
    private var place = 0

    val ended get() = text.drop(place).pythonTrim().isEmpty()

    fun value(depth: Int): JsonValue {
        if (depth > DEEPEST) throw NotACall("it is nested too deeply")
        if (take(quote)) return JsonValue.Text(quoted())
        if (take("{")) return JsonValue.Fields(items("}") { key() to value(depth + 1) }.toMap())
        if (take("[")) return JsonValue.Items(items("]") { value(depth + 1) })
        val scalar = text.drop(place).takeWhile { it !in ",{}[]" }
        if (scalar.isEmpty()) throw NotACall("a value is missing")
        place += scalar.length
        return JsonText.parse(scalar.pythonTrim())
    }

    private fun <T> items(close: String, item: () -> T): List<T> {
        val out = ArrayList<T>()
        while (!take(close)) {
            if (out.isNotEmpty() && !take(",")) throw NotACall("$close is missing")
            out += item()
        }
        return out
    }

    private fun key(): String {
        val key = if (take(quote)) quoted() else text.drop(place).takeWhile { it in KEY }.also { place += it.length }
        if (key.isEmpty() || !take(":")) throw NotACall("a key is missing")
        return key
    }

    private fun quoted(): String {
        val end = text.indexOf(quote, place)
        if (end < 0) throw NotACall("a text does not end")
        return text.substring(place, end).also { place = end + quote.length }
    }

    private fun take(wanted: String): Boolean {
        place = text.length - text.drop(place).pythonTrimStart().length
        val follows = text.startsWith(wanted, place)
        if (follows) place += wanted.length
        return follows
    }

    private companion object {
        const val DEEPEST = 64
        const val KEY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
    }
}
