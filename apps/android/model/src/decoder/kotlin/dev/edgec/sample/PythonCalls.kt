package dev.edgec.sample

/** `[weather(city="Oslo", days=3)]`: Python's calls with named arguments; a text that is JSON is read as such, too. */
internal class PythonCalls : CallBody {
    override fun read(text: String): List<WrittenCall> {
        val whole = text.pythonTrim()
        if (whole.startsWith("[{") || whole.startsWith("{")) return JsonList().read(whole)
        if (whole.codePointCount(0, whole.length) > LONGEST) throw NotACall("the call is longer than $LONGEST characters")
        return PythonReader(whole).calls()
    }

    private companion object {
        const val LONGEST = 65536
    }
}

/** Reads calls and plain values as Python writes them; nothing is executed. */
private class PythonReader(private val text: String) {
    private val strings = PythonStrings(text)
    private var place = 0
    private var depth = 0

    fun calls(): List<WrittenCall> {
        val calls = if (next() == '[') listed('[', ']') { call() } else listOf(call())
        if (next() != null) fail("something follows the calls")
        if (calls.isEmpty()) fail("the list of calls is empty")
        return calls
    }

    private fun call(): WrittenCall {
        if (next() == '(') return listed('(', ')') { call() }.singleOrNull() ?: fail("a call begins with a name")
        val names = arrayListOf(name())
        while (taken('.')) names += name()
        val arguments = LinkedHashMap<String, JsonValue>()
        if (next() != '(') fail("a call has a name and named arguments")
        listed('(', ')') {
            val name = name()
            if (!taken('=')) fail("an argument has no name")
            if (arguments.put(name, value()) != null) fail("two arguments have the same name")
        }
        return WrittenCall(names.joinToString("."), JsonValue.Fields(arguments))
    }

    private fun value(): JsonValue {
        val first = next() ?: fail("a value is missing")
        return when {
            first == '[' -> JsonValue.Items(listed('[', ']') { value() })
            first == '(' -> inParentheses()
            first == '{' -> JsonValue.Fields(listed('{', '}') { entry() }.toMap())
            first == '-' -> negative()
            first.isDigit() || first == '.' -> JsonValue.Word(number())
            strings.beginAt(place) -> JsonValue.Text(joined())
            else -> WORDS[word()]?.let(JsonValue::Word) ?: fail("an argument is not a plain value")
        }
    }

    /** A tuple, or one value in parentheses. */
    private fun inParentheses(): JsonValue {
        var commas = 0
        val items = listed('(', ')', { commas++ }) { value() }
        return if (items.size == 1 && commas == 0) items[0] else JsonValue.Items(items)
    }

    private fun entry(): Pair<String, JsonValue> {
        val isName = next()?.isLowerCase() == true && !strings.beginAt(place)
        if (isName || next() == '-') fail("a key is not a plain value")
        val key = when (val held = value()) {
            is JsonValue.Text -> held.text
            is JsonValue.Word -> PYTHON_WORDS[held.text] ?: held.text
            else -> fail("a key is not a plain value")
        }
        if (!taken(':')) fail("a colon is missing")
        return key to value()
    }

    private fun negative(): JsonValue {
        place++
        if (next()?.isDigit() != true && next() != '.') fail("an argument is not a plain value")
        return JsonValue.Word("-${number()}")
    }

    private fun number(): String {
        val number = digitsOfBase() ?: plainNumber()
        if (text.getOrNull(place)?.let { it.isLetterOrDigit() || it in "_." } == true) fail("a number is not one")
        return number
    }

    /** A number like 0x1F; null where it has no such beginning. */
    private fun digitsOfBase(): String? {
        val base = BASES[text.drop(place).take(2).lowercase()] ?: return null
        place += 2
        val digits = withoutLines(taking { it.isLetterOrDigit() || it == '_' }.removePrefix("_"))
        return digits.toULongOrNull(base)?.toString() ?: fail("a number is too large, or not one")
    }

    private fun plainNumber(): String {
        val whole = digits()
        val part = if (passed('.')) digits() else null
        val exponent = if (passed('e') || passed('E')) sign() + digits() else null
        if (whole.isEmpty() && part.isNullOrEmpty()) fail("a number is not one")
        if (exponent != null && exponent.lastOrNull()?.isDigit() != true) fail("a number is not one")
        val short = whole.trimStart('0').ifEmpty { "0" }
        if (part == null && exponent == null) return short.also { checkWhole(whole, it) }
        val real = "$short.${part.orEmpty().ifEmpty { "0" }}" + if (exponent == null) "" else "e$exponent"
        return if (real.toDouble().isFinite()) real else fail("a number is too large")
    }

    private fun sign(): String {
        if (passed('-')) return "-"
        passed('+')
        return ""
    }

    private fun checkWhole(whole: String, short: String) {
        if (whole.length > MOST_DIGITS) fail("a number is too large")
        if (short != whole && short != "0") fail("a number begins with 0")
    }

    /** Digits, or none, without the lines between them. */
    private fun digits(): String = withoutLines(taking { it in '0'..'9' || it == '_' })

    private fun withoutLines(digits: String): String {
        if (digits.startsWith('_') || digits.endsWith('_') || "__" in digits) fail("a number is not one")
        return digits.replace("_", "")
    }

    private fun taking(fits: (Char) -> Boolean): String =
        text.substring(place).takeWhile(fits).also { place += it.length }

    private fun passed(character: Char): Boolean = (text.getOrNull(place) == character).also { if (it) place++ }

    /** Texts that follow each other are one. */
    private fun joined(): String {
        val out = StringBuilder()
        do {
            val (part, end) = strings.read(place)
            out.append(part)
            place = end
            next()
        } while (strings.beginAt(place))
        if (JsonText.hasHalf(out)) fail("a text holds half a character")
        return out.toString()
    }

    private fun <T> listed(open: Char, close: Char, comma: () -> Unit = {}, item: () -> T): List<T> {
        check(taken(open))
        if (++depth > DEEPEST) fail("it is nested too deeply")
        val items = ArrayList<T>()
        while (next() != close) {
            items += item()
            if (next() == close) break
            if (!taken(',')) fail("$close is missing")
            comma()
        }
        place++
        depth--
        return items
    }

    private fun name(): String = word().also { if (it in KEYWORDS) fail("$it is not a name") }

    private fun word(): String {
        next()
        val start = place
        if (place < text.length && (Character.isUnicodeIdentifierStart(text.codePointAt(place)) || text[place] == '_')) {
            while (place < text.length && identifierGoesOn(text.codePointAt(place))) place += Character.charCount(text.codePointAt(place))
        }
        if (place == start) fail("a name is missing")
        return java.text.Normalizer.normalize(text.substring(start, place), java.text.Normalizer.Form.NFKC)
    }

    private fun identifierGoesOn(point: Int) =
        Character.isUnicodeIdentifierPart(point) && !Character.isIdentifierIgnorable(point)

    private fun taken(character: Char): Boolean = (next() == character).also { if (it) place++ }

    /** The next character that means something; lines may end within brackets. */
    private fun next(): Char? {
        val space = if (depth > 0) SPACE_IN_BRACKETS else SPACE
        var skipped = space.matchAt(text, place)
        while (skipped != null) {
            place += skipped.value.length
            skipped = space.matchAt(text, place)
        }
        return text.getOrNull(place)
    }

    private fun fail(why: String): Nothing = throw NotACall("it is not a list of calls: $why")

    private companion object {
        const val DEEPEST = 200
        const val MOST_DIGITS = 4300
        val SPACE = Regex("[ \\t\\f]+|\\\\(\\r\\n|[\\r\\n])|#[^\\r\\n]*")
        val SPACE_IN_BRACKETS = Regex("[ \\t\\f\\r\\n]+|\\\\(\\r\\n|[\\r\\n])|#[^\\r\\n]*")
        val BASES = mapOf("0x" to 16, "0o" to 8, "0b" to 2)
        val WORDS = mapOf(
            "True" to "true", "False" to "false", "None" to "null", "true" to "true", "false" to "false", "null" to "null",
        )
        val PYTHON_WORDS = mapOf("true" to "True", "false" to "False", "null" to "None")
        val KEYWORDS = (
            "False None True and as assert async await break class continue def del elif else except finally for from " +
                "global if import in is lambda nonlocal not or pass raise return try while with yield"
            ).split(" ").toSet()
    }
}
