package android.util

import java.io.Closeable
import java.io.Reader
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive

enum class JsonToken { BEGIN_ARRAY, END_ARRAY, BEGIN_OBJECT, END_OBJECT, NAME, STRING, NUMBER, BOOLEAN, NULL, END_DOCUMENT }

/** A stand-in of Android's streaming reader over a whole tree; like it, it throws where something else comes next. */
class JsonReader(from: Reader) : Closeable {
    private val open = ArrayDeque<Iterator<Any>>(listOf(iterator { yield(Json.parseToJsonElement(from.readText()) as Any) }))
    private var ahead: Any? = null

    private fun next(): Any = (ahead ?: open.last().next()).also { ahead = null }

    fun hasNext(): Boolean = ahead != null || open.last().hasNext()

    fun peek(): JsonToken {
        if (!hasNext()) return if (open.size == 1) JsonToken.END_DOCUMENT else JsonToken.END_ARRAY
        val value = next().also { ahead = it }
        return when {
            value is String -> JsonToken.NAME
            value is JsonObject -> JsonToken.BEGIN_OBJECT
            value is JsonArray -> JsonToken.BEGIN_ARRAY
            value === JsonNull -> JsonToken.NULL
            (value as JsonPrimitive).isString -> JsonToken.STRING
            value.content == "true" || value.content == "false" -> JsonToken.BOOLEAN
            else -> JsonToken.NUMBER
        }
    }

    fun beginObject() {
        val fields = next() as JsonObject
        open.addLast(iterator { for ((name, value) in fields) { yield(name); yield(value) } })
    }

    fun endObject() = end()

    fun beginArray() {
        open.addLast((next() as JsonArray).iterator())
    }

    fun endArray() = end()

    private fun end() {
        check(!hasNext())
        open.removeLast()
    }

    fun nextName(): String = next() as String

    fun nextString(): String = primitive { true }.content

    fun nextInt(): Int = primitive { !it.isString }.content.toInt()

    fun nextLong(): Long = primitive { !it.isString }.content.toLong()

    fun nextDouble(): Double = primitive { !it.isString }.content.toDouble()

    fun nextBoolean(): Boolean = primitive { !it.isString }.content.toBooleanStrict()

    private fun primitive(fits: (JsonPrimitive) -> Boolean): JsonPrimitive =
        (next() as JsonPrimitive).also { check(it !== JsonNull && fits(it)) }

    fun skipValue() {
        val value = next() as JsonElement
        check(value !is JsonPrimitive || value.isString || LITERAL.matches(value.content))
    }

    override fun close() {}

    private companion object {
        // kotlinx takes any word without quotes for a value, Android does not.
        val LITERAL = Regex("null|true|false|-?[0-9.eE+-]+")
    }
}
