package dev.edgec.sample

/** The template refuses the conversation, or does with it what Python would not. */
internal class TemplateRefused(why: String) : Exception(why)

/** A name or a part that is not there: it prints nothing and is false, and nothing can be taken from it. */
internal class Absent(val name: String)

/** `namespace()`, whose parts are set from inside of loops. */
internal class TemplateNames(val parts: MutableMap<String, Any?>)

/** A macro, or one of the functions that every template finds. */
internal fun interface TemplateFunction {
    fun call(arguments: List<Any?>, named: Map<String, Any?>): Any?
}

/** The values of templates, as Python has them: null is None, whole numbers are Long, lists and tuples List. */
internal object TemplateValues {
    fun fail(why: String): Nothing = throw TemplateRefused(why)

    fun isTrue(value: Any?): Boolean = when (value) {
        null, is Absent -> false
        is Boolean -> value
        is Long -> value != 0L
        is Double -> value != 0.0
        is String -> value.isNotEmpty()
        is List<*> -> value.isNotEmpty()
        is Map<*, *> -> value.isNotEmpty()
        else -> true
    }

    /** What printing writes. */
    fun text(value: Any?): String = if (value is String) value else if (value is Absent) "" else written(value)

    private fun written(value: Any?): String = when (value) {
        null -> "None"
        true -> "True"
        false -> "False"
        is Long -> value.toString()
        is String -> quoted(value)
        is List<*> -> value.joinToString(", ", "[", "]", transform = ::written)
        is Map<*, *> -> value.entries.joinToString(", ", "{", "}") { "${written(it.key)}: ${written(it.value)}" }
        else -> fail("it prints what is no text")
    }

    /** A text inside of a list, where it needs no escapes. */
    private fun quoted(text: String): String {
        if (text.any { it < ' ' || it > '~' || it in "'\\" }) fail("it prints a list whose texts need escapes")
        return "'$text'"
    }

    fun json(value: Any?, indent: Int?, sorted: Boolean, separators: List<Any?>?, depth: Int = 1): String {
        val comma = separators?.let { text(it[0]) } ?: if (indent == null) ", " else ","
        val colon = separators?.let { text(it[1]) } ?: ": "
        fun block(open: String, parts: List<String>, close: String): String = when {
            parts.isEmpty() -> open + close
            indent == null -> parts.joinToString(comma, open, close)
            else -> {
                val line = "\n" + " ".repeat(indent * depth)
                parts.joinToString(comma + line, open + line, "\n" + " ".repeat(indent * (depth - 1)) + close)
            }
        }
        fun deeper(part: Any?) = json(part, indent, sorted, separators, depth + 1)
        return when (value) {
            null -> "null"
            is Boolean, is Long -> value.toString()
            is String -> JsonText.quoted(value)
            is List<*> -> block("[", value.map(::deeper), "]")
            is Map<*, *> -> {
                val entries = if (sorted) value.entries.sortedBy { text(it.key) } else value.entries.toList()
                block("{", entries.map { "${JsonText.quoted(text(it.key))}$colon${deeper(it.value)}" }, "}")
            }
            else -> fail("it writes as JSON what JSON does not have")
        }
    }

    fun items(value: Any?): List<Any?> = when (value) {
        is List<*> -> value
        is Map<*, *> -> value.keys.toList()
        is String -> points(value).map { string(intArrayOf(it)) }
        is Absent -> listOf()
        else -> fail("it goes through what has no parts")
    }

    fun part(value: Any?, key: Any?): Any? = when (value) {
        is Absent -> fail("${value.name} is undefined")
        is Map<*, *> -> if (value.containsKey(key)) value[key] else Absent(text(key))
        is TemplateNames -> if (key in value.parts) value.parts[key] else Absent(text(key))
        is List<*> -> if (key is Long) value.getOrElse(place(key, value.size)) { Absent("a part") } else Absent(text(key))
        is String -> {
            val points = points(value)
            val at = if (key is Long) place(key, points.size) else -1
            if (at in points.indices) string(intArrayOf(points[at])) else Absent("a part")
        }
        else -> Absent(text(key))
    }

    private fun place(key: Long, size: Int): Int = (if (key < 0) key + size else key).coerceIn(-1L, size.toLong()).toInt()

    fun slice(value: Any?, from: Any?, to: Any?, by: Any?): Any? = when (value) {
        is List<*> -> places(value.size, from, to, by).map { value[it] }
        is String -> points(value).let { points -> string(places(points.size, from, to, by).map { points[it] }.toIntArray()) }
        is Absent -> fail("${value.name} is undefined")
        else -> Absent("a part")
    }

    private fun places(size: Int, from: Any?, to: Any?, by: Any?): List<Int> {
        val step = (by as Long?)?.toInt() ?: 1
        if (step == 0) fail("a step is zero")
        val (low, high) = if (step > 0) 0 to size else -1 to size - 1
        fun end(given: Any?, otherwise: Int): Int {
            val place = (given ?: return otherwise) as? Long ?: fail("a slice needs numbers")
            return (if (place < 0) place + size else place).coerceIn(low.toLong(), high.toLong()).toInt()
        }
        val (first, last) = end(from, if (step > 0) low else high) to end(to, if (step > 0) high else low)
        return if (step > 0) (first until last step step).toList() else (first downTo last + 1 step -step).toList()
    }

    fun same(one: Any?, other: Any?): Boolean {
        val (first, second) = number(one) to number(other)
        if (first != null && second != null) return first == second
        return when (one) {
            is Absent -> other is Absent
            is List<*> -> other is List<*> && one.size == other.size && one.indices.all { same(one[it], other[it]) }
            else -> one == other
        }
    }

    fun order(one: Any?, other: Any?): Int {
        val (first, second) = number(one) to number(other)
        if (first != null && second != null) return first.compareTo(second)
        if (one !is String || other !is String) fail("it compares different kinds")
        val (left, right) = points(one) to points(other)
        val at = left.indices.firstOrNull { it >= right.size || left[it] != right[it] }
        return if (at == null) left.size - right.size else if (at >= right.size) 1 else left[at] - right[at]
    }

    fun holds(all: Any?, one: Any?): Boolean = when (all) {
        is String -> (one as? String ?: fail("only a text is in a text")) in all
        is Map<*, *> -> all.containsKey(one)
        else -> items(all).any { same(it, one) }
    }

    fun number(value: Any?): Double? = when (value) {
        is Boolean -> if (value) 1.0 else 0.0
        is Long -> value.toDouble()
        is Double -> value
        else -> null
    }

    fun sum(one: Any?, other: Any?): Any? = when {
        one is String && other is String -> one + other
        one is List<*> && other is List<*> -> one + other
        else -> arithmetic("+", one, other)
    }

    fun arithmetic(sign: String, one: Any?, other: Any?): Any? {
        if (sign == "*" && one is String && other is Long) return one.repeat(maxOf(other, 0).toInt())
        val (left, right) = whole(one) to whole(other)
        if (left == null || right == null) fail("it computes with what is no whole number")
        if (right == 0L && sign in "//%") fail("it divides by zero")
        return when (sign) {
            "+" -> left + right
            "-" -> left - right
            "*" -> left * right
            "//" -> Math.floorDiv(left, right)
            "%" -> Math.floorMod(left, right)
            else -> fail("it computes with fractions")
        }
    }

    private fun whole(value: Any?): Long? = if (value is Boolean) (if (value) 1L else 0L) else value as? Long

    fun points(text: String): IntArray = text.codePoints().toArray()

    fun string(points: IntArray): String = String(points, 0, points.size)
}
