package dev.edgec.sample

/** A call as it was read. */
internal class WrittenCall(val name: String, val arguments: JsonValue.Fields)

/** What stands between the markers of a call. */
internal interface CallBody {
    /** The calls of a text. Throws [NotACall]. */
    fun read(text: String): List<WrittenCall>

    /** A call's arguments as the tool's schema has them; [texts] are those that are texts by it. Throws [NotACall]. */
    fun typed(call: WrittenCall, texts: Set<String>): JsonValue.Fields = call.arguments
}

/** `{"name": NAME, "arguments": {...}}`, of which the opening marker has [opened] already. */
internal class JsonCall(private val opened: String) : CallBody {
    override fun read(text: String) = listOf(callOf(JsonText.parse(opened + text)))
}

/** `[{"name": NAME, "arguments": {...}}, ...]`. */
internal class JsonList : CallBody {
    override fun read(text: String): List<WrittenCall> {
        val held = JsonText.parse(text)
        val calls = (held as? JsonValue.Items)?.items ?: listOf(held)
        if (calls.isEmpty()) throw NotACall("the list of calls is empty")
        return calls.map(::callOf)
    }
}

/** `NAME`, [between], and the arguments as an object; [skipped] and what follows it are not part of the name. */
internal class NamedJson(private val between: String, private val skipped: String) : CallBody {
    override fun read(text: String): List<WrittenCall> {
        if (between !in text) throw NotACall("${between.pythonTrim()} is missing after the name")
        val head = text.substringBefore(between)
        val name = if (skipped.isEmpty()) head else head.substringBefore(skipped)
        return listOf(checked(name.pythonTrim(), JsonText.parse(text.substringAfter(between))))
    }
}

/** `<function=NAME>`, and `<parameter=KEY>` with each value; texts stand as they are, other values as JSON. */
internal class TaggedCall : CallBody {
    override fun read(text: String): List<WrittenCall> {
        val whole = text.pythonTrim()
        if (!whole.startsWith(FUNCTION) || '>' !in whole) throw NotACall("a call begins with <function=NAME>")
        val arguments = LinkedHashMap<String, JsonValue>()
        var rest = whole.substringAfter('>').pythonTrimStart()
        while (!rest.startsWith("</function>")) {
            val value = rest.removePrefix("<parameter=").substringAfter('>', "")
            if ('>' !in rest.removePrefix("<parameter=") || END !in value) throw NotACall("a parameter does not end")
            val name = rest.removePrefix("<parameter=").substringBefore('>').pythonTrim()
            arguments[name] = JsonValue.Text(value.substringBefore(END).removePrefix("\n").removeSuffix("\n"))
            rest = value.substringAfter(END).pythonTrimStart()
        }
        val name = whole.removePrefix(FUNCTION).substringBefore('>').pythonTrim()
        return listOf(WrittenCall(name, JsonValue.Fields(arguments)))
    }

    override fun typed(call: WrittenCall, texts: Set<String>) = JsonValue.Fields(
        call.arguments.fields.mapValues { (name, value) ->
            val text = (value as JsonValue.Text).text
            if (name in texts) value else JsonText.parse(WORDS[text] ?: text)
        },
    )

    private companion object {
        const val FUNCTION = "<function="
        const val END = "</parameter>"

        // Qwen 3.5's template shows these in earlier calls as Python writes them, and the model after it.
        val WORDS = mapOf("True" to "true", "False" to "false", "None" to "null")
    }
}

private fun callOf(held: JsonValue): WrittenCall {
    val given = (held as? JsonValue.Fields)?.fields ?: throw NotACall("a call is an object")
    val fields = (given["function"] as? JsonValue.Fields)?.fields ?: given
    return checked((fields["name"] as? JsonValue.Text)?.text, fields["arguments"] ?: fields["parameters"])
}

private fun checked(name: String?, arguments: JsonValue?): WrittenCall {
    if (name.isNullOrEmpty()) throw NotACall("the call has no name")
    return WrittenCall(name, arguments as? JsonValue.Fields ?: throw NotACall("the call's arguments are not an object"))
}
