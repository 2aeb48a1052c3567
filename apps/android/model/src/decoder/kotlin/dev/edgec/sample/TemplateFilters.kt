package dev.edgec.sample

/** Filters, tests, methods and comparisons that chat templates use. */
internal object TemplateFilters {
    private fun fail(why: String): Nothing = TemplateValues.fail(why)

    fun filtered(name: String, value: Any?, given: List<Any?>, named: Map<String, Any?>): Any? = when (name) {
        "capitalize", "lower", "title", "upper" -> method(TemplateValues.text(value), name, given, named)
        "trim" -> method(TemplateValues.text(value), "strip", given, named)
        "replace" -> method(TemplateValues.text(value), "replace", given, named)
        "string", "safe" -> TemplateValues.text(value)
        "count", "length" -> if (value is String) value.codePointCount(0, value.length).toLong() else TemplateValues.items(value).size.toLong()
        "d", "default" -> {
            val also = TemplateValues.isTrue(given.getOrElse(1) { named["boolean"] })
            if (value is Absent || (also && !TemplateValues.isTrue(value))) given.getOrElse(0) { "" } else value
        }
        "first" -> TemplateValues.items(value).let { if (it.isEmpty()) Absent("first") else it.first() }
        "last" -> TemplateValues.items(value).let { if (it.isEmpty()) Absent("last") else it.last() }
        "int" -> whole(value, given)
        "items" -> if (value is Absent) listOf() else pairs(value)
        "join" -> {
            val parts = TemplateValues.items(value).map { part -> named["attribute"]?.let { attribute(part, it) } ?: part }
            parts.joinToString(TemplateValues.text(given.firstOrNull() ?: ""), transform = TemplateValues::text)
        }
        "list" -> TemplateValues.items(value)
        "map" -> mapped(TemplateValues.items(value), given, named)
        "reverse" -> if (value is String) TemplateValues.items(value).reversed().joinToString("") else TemplateValues.items(value).reversed()
        "select", "reject" -> TemplateValues.items(value).filter { passes(it, given) == (name == "select") }
        "selectattr", "rejectattr" -> TemplateValues.items(value)
            .filter { passes(attribute(it, given[0]), given.drop(1)) == (name == "selectattr") }
        "unique" -> TemplateValues.items(value).fold(listOf<Any?>()) { kept, each ->
            if (kept.any { TemplateValues.same(it, each) }) kept else kept + each
        }
        "tojson" -> {
            if (TemplateValues.isTrue(named["ensure_ascii"])) fail("it escapes JSON")
            val indent = (named["indent"] ?: given.getOrNull(1)) as Long?
            TemplateValues.json(value, indent?.toInt(), TemplateValues.isTrue(named["sort_keys"]), named["separators"] as List<Any?>?)
        }
        else -> fail("it has the filter $name")
    }

    private fun whole(value: Any?, given: List<Any?>): Any? = when (value) {
        is Long -> value
        is Boolean -> if (value) 1L else 0L
        is Double -> value.toLong()
        is String -> value.pythonTrim().toLongOrNull() ?: given.getOrElse(0) { 0L }
        else -> given.getOrElse(0) { 0L }
    }

    private fun mapped(values: List<Any?>, given: List<Any?>, named: Map<String, Any?>): List<Any?> {
        val path = named["attribute"] ?: return values.map { filtered(given[0] as String, it, given.drop(1), named) }
        return values.map { value -> attribute(value, path).let { if (it is Absent && "default" in named) named["default"] else it } }
    }

    private fun attribute(value: Any?, path: Any?): Any? =
        if (path is String) path.split('.').fold(value) { at, name -> TemplateValues.part(at, name) } else TemplateValues.part(value, path)

    private fun passes(value: Any?, test: List<Any?>): Boolean =
        if (test.isEmpty()) TemplateValues.isTrue(value) else tested(test[0] as String, value, test.drop(1), mapOf()) as Boolean

    fun tested(name: String, value: Any?, given: List<Any?>, named: Map<String, Any?>): Any? = when (name) {
        "defined" -> value !is Absent
        "undefined" -> value is Absent
        "none" -> value == null
        "string" -> value is String
        "mapping" -> value is Map<*, *>
        "sequence" -> value is String || value is List<*> || value is Map<*, *>
        "iterable" -> value is String || value is List<*> || value is Map<*, *> || value is Absent
        "number" -> TemplateValues.number(value) != null
        "integer" -> value is Long
        "float" -> value is Double
        "boolean" -> value is Boolean
        "true" -> value == true
        "false" -> value == false
        "even", "odd" -> ((value as? Long ?: fail("only a number is $name")) % 2 == 0L) == (name == "even")
        "divisibleby" -> TemplateValues.arithmetic("%", value, given[0]) == 0L
        "lower" -> TemplateValues.text(value).let { it == it.lowercase() && it != it.uppercase() }
        "upper" -> TemplateValues.text(value).let { it == it.uppercase() && it != it.lowercase() }
        "sameas" -> value === given[0] || ((value is String || value is Boolean) && value == given[0])
        "eq", "equalto" -> compared("eq", value, given[0])
        else -> compared(name.takeIf { named.isEmpty() } ?: fail("it has the test $name"), value, given[0])
    }

    fun compared(sign: String, one: Any?, other: Any?): Boolean = when (sign) {
        "eq", "==" -> TemplateValues.same(one, other)
        "ne", "!=" -> !TemplateValues.same(one, other)
        "in" -> TemplateValues.holds(other, one)
        "notin" -> !TemplateValues.holds(other, one)
        "lt" -> TemplateValues.order(one, other) < 0
        "lteq" -> TemplateValues.order(one, other) <= 0
        "gt" -> TemplateValues.order(one, other) > 0
        "gteq" -> TemplateValues.order(one, other) >= 0
        else -> fail("it has the test $sign")
    }

    fun method(value: Any?, name: String, given: List<Any?>, named: Map<String, Any?>): Any? {
        if (named.isNotEmpty()) fail("$name is called with names")
        return when (value) {
            is String -> ofText(value, name, given)
            is Map<*, *> -> when (name) {
                "get" -> if (value.containsKey(given[0])) value[given[0]] else given.getOrNull(1)
                "items" -> pairs(value)
                "keys" -> value.keys.toList()
                "values" -> value.values.toList()
                else -> fail("it calls $name of a table")
            }
            else -> fail("it calls $name of what has no such method")
        }
    }

    private fun pairs(value: Any?): List<Any?> = (value as? Map<*, *> ?: fail("it takes items of no table")).map { listOf(it.key, it.value) }

    private fun ofText(text: String, name: String, given: List<Any?>): Any? = when (name) {
        "strip", "lstrip", "rstrip" -> stripped(text, name, given.firstOrNull())
        "startswith", "endswith" -> {
            val ends = if (given[0] is List<*>) given[0] as List<*> else listOf(given[0])
            ends.any { end -> text(end).let { if (name == "startswith") text.startsWith(it) else text.endsWith(it) } }
        }
        "lower" -> text.lowercase(java.util.Locale.ROOT)
        "upper" -> text.uppercase(java.util.Locale.ROOT)
        "capitalize" -> text.take(1).uppercase(java.util.Locale.ROOT) + text.drop(1).lowercase(java.util.Locale.ROOT)
        "title" -> TITLE.replace(text) { ofText(it.value, "capitalize", listOf()) as String }
        "find" -> text.indexOf(text(given[0])).let { if (it < 0) -1L else text.codePointCount(0, it).toLong() }
        "join" -> TemplateValues.items(given[0]).joinToString(text) { text(it) }
        "replace" -> replaced(text, text(given[0]), text(given[1]), given.getOrNull(2) as Long?)
        "split" -> split(text, given.firstOrNull(), given.getOrNull(1) as Long?)
        else -> fail("it calls $name of a text")
    }

    private fun text(value: Any?): String = value as? String ?: fail("it needs a text")

    private fun stripped(text: String, name: String, given: Any?): String {
        val marks = given?.let { TemplateValues.points(text(it)).toSet() }
        val points = TemplateValues.points(text)
        fun isMark(point: Int) = if (marks == null) point < 0x10000 && point.toChar().isPythonSpace() else point in marks
        val from = if (name == "rstrip") 0 else points.indexOfFirst { !isMark(it) }.let { if (it < 0) points.size else it }
        val to = if (name == "lstrip") points.size else points.indexOfLast { !isMark(it) } + 1
        return if (from >= to) "" else TemplateValues.string(points.copyOfRange(from, to))
    }

    private fun replaced(text: String, old: String, new: String, count: Long?): String {
        if (count == null) return text.replace(old, new)
        if (old.isEmpty()) fail("it replaces nothing")
        return if (count < 0) text.replace(old, new) else text.split(old, limit = count.toInt() + 1).joinToString(new)
    }

    private fun split(text: String, mark: Any?, most: Long?): List<String> {
        if (mark == null) {
            if (most != null) fail("it splits at some white space")
            return text.split(SPACE).filter { it.isNotEmpty() }
        }
        if (text(mark).isEmpty()) fail("it splits at nothing")
        return if (most == null || most < 0) text.split(text(mark)) else text.split(text(mark), limit = most.toInt() + 1)
    }

    private val TITLE = Regex("\\p{L}+")
    private val SPACE = Regex("[\\u0009-\\u000D\\u001C-\\u0020\\u0085\\u00A0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]")
}
