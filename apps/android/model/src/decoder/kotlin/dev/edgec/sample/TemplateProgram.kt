package dev.edgec.sample

/** Names and their values; those of an outer block are seen, too. */
internal class TemplateScope(private val outer: TemplateScope?) {
    private val names = HashMap<String, Any?>()

    operator fun get(name: String): Any? =
        if (name in names) names[name] else if (outer != null) outer[name] else Absent(name)

    operator fun set(name: String, value: Any?) {
        names[name] = value
    }
}

/**
 * A chat template as the tree that Jinja's own parser made of it, when edgec generated this code; each node is a list of
 * its name and its parts. Runs it as Python would.
 */
internal class TemplateProgram(tree: String, private val variables: Map<String, Any?>) {
    private val body = (JsonText.parse(tree) as JsonValue.Items).items

    /** What the template writes; throws [TemplateRefused]. */
    fun render(given: Map<String, Any?>, clock: PromptClock): String {
        val scope = TemplateScope(null)
        for ((name, function) in functions(clock)) scope[name] = function
        for ((name, value) in variables + given) scope[name] = value
        return StringBuilder().also { TemplateRun(it).run(body, TemplateScope(scope)) }.toString()
    }

    private fun functions(clock: PromptClock): Map<String, TemplateFunction> = mapOf(
        "raise_exception" to TemplateFunction { why, _ -> TemplateValues.fail(TemplateValues.text(why.firstOrNull())) },
        "namespace" to TemplateFunction { _, parts -> TemplateNames(parts.toMutableMap()) },
        "dict" to TemplateFunction { _, parts -> parts },
        "strftime_now" to TemplateFunction { form, _ -> clock.format(TemplateValues.text(form.firstOrNull())) },
        "range" to TemplateFunction { ends, _ ->
            val numbers = ends.map { it as? Long ?: TemplateValues.fail("range needs numbers") }
            val step = numbers.getOrElse(2) { 1L }
            if (step == 0L) TemplateValues.fail("range needs a step")
            val (from, to) = if (numbers.size < 2) 0L to numbers[0] else numbers[0] to numbers[1]
            if (step > 0) (from until to step step).toList() else (from downTo to + 1 step -step).toList()
        },
    )
}

/** What comes after a statement. */
private enum class Then { NEXT, BREAK, CONTINUE }

/** Runs statements, which write to [out]. */
private class TemplateRun(private val out: StringBuilder) {
    fun run(body: List<JsonValue>, scope: TemplateScope): Then {
        for (node in body) {
            val then = statement(node.name, node.parts, scope)
            if (then != Then.NEXT) return then
        }
        return Then.NEXT
    }

    private fun statement(name: String, parts: List<JsonValue>, scope: TemplateScope): Then {
        when (name) {
            "Output" -> parts[0].items.forEach { out.append(if (it.name == "TemplateData") it.parts[0].text else printed(it, scope)) }
            "If" -> return choose(parts, scope)
            "For" -> loop(parts, scope)
            "Assign" -> assign(parts[0], value(parts[1], scope), scope)
            "AssignBlock" -> assign(parts[0], written(parts[1].items, scope), scope)
            "Macro" -> scope[parts[0].text] = macro(parts, scope)
            "ExprStmt" -> value(parts[0], scope)
            "Scope" -> return run(parts[0].items, TemplateScope(scope))
            "Break" -> return Then.BREAK
            "Continue" -> return Then.CONTINUE
            else -> TemplateValues.fail("it has a $name")
        }
        return Then.NEXT
    }

    private fun choose(parts: List<JsonValue>, scope: TemplateScope): Then {
        if (isTrue(parts[0], scope)) return run(parts[1].items, scope)
        val other = parts[2].items.firstOrNull { isTrue(it.parts[0], scope) } ?: return run(parts[3].items, scope)
        return run(other.parts[1].items, scope)
    }

    private fun loop(parts: List<JsonValue>, scope: TemplateScope) {
        val (target, over, body, otherwise, test) = parts
        fun within(item: Any?) = TemplateScope(scope).also { assign(target, item, it) }
        val items = TemplateValues.items(value(over, scope)).filter { test.isNothing || isTrue(test, within(it)) }
        for ((index, item) in items.withIndex()) {
            val inner = within(item)
            inner["loop"] = place(items, index)
            if (run(body.items, inner) == Then.BREAK) break
        }
        if (items.isEmpty()) run(otherwise.items, TemplateScope(scope))
    }

    private fun place(items: List<Any?>, index: Int): Map<String, Any?> = mapOf(
        "index" to index + 1L,
        "index0" to index.toLong(),
        "revindex" to (items.size - index).toLong(),
        "revindex0" to (items.size - index - 1).toLong(),
        "first" to (index == 0),
        "last" to (index == items.size - 1),
        "length" to items.size.toLong(),
        "previtem" to items.getOrElse(index - 1) { Absent("previtem") },
        "nextitem" to items.getOrElse(index + 1) { Absent("nextitem") },
        "cycle" to TemplateFunction { each, _ -> each[index % each.size] },
    )

    private fun assign(target: JsonValue, value: Any?, scope: TemplateScope) {
        when (target.name) {
            "Name" -> scope[target.parts[0].text] = value
            "NSRef" -> {
                val names = scope[target.parts[0].text] as? TemplateNames ?: TemplateValues.fail("it sets a part of no namespace")
                names.parts[target.parts[1].text] = value
            }
            else -> {
                val (targets, values) = target.parts[0].items to TemplateValues.items(value)
                if (targets.size != values.size) TemplateValues.fail("it takes ${targets.size} of ${values.size} parts")
                targets.zip(values).forEach { (each, part) -> assign(each, part, scope) }
            }
        }
    }

    private fun macro(parts: List<JsonValue>, scope: TemplateScope): TemplateFunction {
        val names = parts[1].items.map { it.text }
        val defaults = parts[2].items
        return TemplateFunction { arguments, named ->
            val inner = TemplateScope(scope)
            if (arguments.size > names.size || (named.keys - names.toSet()).isNotEmpty()) {
                TemplateValues.fail("${parts[0].text} takes no such arguments")
            }
            for ((index, name) in names.withIndex()) {
                val default = defaults.getOrNull(index - (names.size - defaults.size))
                inner[name] = when {
                    index < arguments.size -> arguments[index]
                    name in named -> named[name]
                    else -> default?.let { value(it, inner) } ?: Absent(name)
                }
            }
            written(parts[3].items, inner)
        }
    }

    private fun written(body: List<JsonValue>, scope: TemplateScope): String =
        StringBuilder().also { TemplateRun(it).run(body, TemplateScope(scope)) }.toString()

    private fun printed(node: JsonValue, scope: TemplateScope) = TemplateValues.text(value(node, scope))

    private fun isTrue(node: JsonValue, scope: TemplateScope) = TemplateValues.isTrue(value(node, scope))

    private fun value(node: JsonValue, scope: TemplateScope): Any? = TemplateExpressions.value(node, scope)
}

/** The values of expressions. */
private object TemplateExpressions {
    fun value(node: JsonValue, scope: TemplateScope): Any? {
        val parts = node.parts
        fun part(index: Int) = value(parts[index], scope)
        fun isTrue(index: Int) = TemplateValues.isTrue(part(index))
        return when (val name = node.name) {
            "Const" -> constant(parts)
            "TemplateData" -> parts[0].text
            "Name" -> scope[parts[0].text]
            "Getattr" -> TemplateValues.part(part(0), parts[1].text)
            "Getitem" -> item(part(0), parts[1], scope)
            "Call" -> call(parts, scope)
            "Filter", "Test" -> {
                val (given, named) = arguments(parts[2], parts[3], scope)
                val call = if (name == "Filter") TemplateFilters::filtered else TemplateFilters::tested
                call(parts[1].text, part(0), given, named)
            }
            "And" -> part(0).let { if (TemplateValues.isTrue(it)) part(1) else it }
            "Or" -> part(0).let { if (TemplateValues.isTrue(it)) it else part(1) }
            "Not" -> !isTrue(0)
            "CondExpr" -> if (isTrue(0)) part(1) else if (parts[2].isNothing) Absent("a value") else part(2)
            "Compare" -> compare(part(0), parts[1].items, scope)
            "Concat" -> parts[0].items.joinToString("") { TemplateValues.text(value(it, scope)) }
            "Tuple", "List" -> parts[0].items.map { value(it, scope) }
            "Dict" -> parts[0].items.associate { value(it.parts[0], scope) to value(it.parts[1], scope) }
            "Add" -> TemplateValues.sum(part(0), part(1))
            "Neg" -> TemplateValues.arithmetic("-", 0L, part(0))
            else -> TemplateValues.arithmetic(SIGNS[name] ?: TemplateValues.fail("it has a $name"), part(0), part(1))
        }
    }

    private fun constant(parts: List<JsonValue>): Any? = when (parts[0].text) {
        "str" -> parts[1].text
        "int" -> parts[1].toString().toLongOrNull() ?: TemplateValues.fail("a number is too large")
        "bool" -> parts[1].toString() == "true"
        "float" -> parts[1].text.toDouble()
        else -> null
    }

    private fun item(value: Any?, key: JsonValue, scope: TemplateScope): Any? {
        if (key.name != "Slice") return TemplateValues.part(value, value(key, scope))
        val (from, to, by) = key.parts.map { if (it.isNothing) null else value(it, scope) }
        return TemplateValues.slice(value, from, to, by)
    }

    private fun call(parts: List<JsonValue>, scope: TemplateScope): Any? {
        val (given, named) = arguments(parts[1], parts[2], scope)
        val called = parts[0]
        if (called.name == "Getattr") {
            val (of, name) = value(called.parts[0], scope) to called.parts[1].text
            val own = if (of is Map<*, *>) of[name] as? TemplateFunction else null
            return own?.call(given, named) ?: TemplateFilters.method(of, name, given, named)
        }
        val function = value(called, scope) as? TemplateFunction ?: TemplateValues.fail("it calls what is no function")
        return function.call(given, named)
    }

    private fun arguments(given: JsonValue, named: JsonValue, scope: TemplateScope): Pair<List<Any?>, Map<String, Any?>> {
        val fields = (named as JsonValue.Fields).fields
        return given.items.map { value(it, scope) } to fields.mapValues { value(it.value, scope) }
    }

    private fun compare(first: Any?, operands: List<JsonValue>, scope: TemplateScope): Boolean {
        var left = first
        return operands.all { operand ->
            val right = value(operand.parts[1], scope)
            TemplateFilters.compared(operand.parts[0].text, left, right).also { left = right }
        }
    }

    private val SIGNS = mapOf("Sub" to "-", "Mul" to "*", "FloorDiv" to "//", "Mod" to "%")
}

private val JsonValue.items get() = (this as JsonValue.Items).items
private val JsonValue.name get() = items[0].text
private val JsonValue.parts get() = items.drop(1)
private val JsonValue.text get() = (this as JsonValue.Text).text
private val JsonValue.isNothing get() = toString() == "null"
