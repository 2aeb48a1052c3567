package org.json

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** A stand-in for Android's own reader. */
class JSONObject(private val fields: JsonObject) {
    constructor(text: String = "{}") : this(Json.parseToJsonElement(text).jsonObject)

    fun getString(name: String): String = fields.getValue(name).jsonPrimitive.content

    fun has(name: String): Boolean = name in fields

    fun getBoolean(name: String): Boolean = fields.getValue(name).jsonPrimitive.boolean

    fun getInt(name: String): Int = fields.getValue(name).jsonPrimitive.int

    fun getDouble(name: String): Double = fields.getValue(name).jsonPrimitive.double

    fun getJSONArray(name: String): JSONArray = JSONArray(fields.getValue(name).jsonArray)

    fun getJSONObject(name: String): JSONObject = JSONObject(fields.getValue(name).jsonObject)

    fun optJSONObject(name: String): JSONObject? =
        fields[name].takeIf { it != null && it !is JsonNull }?.let { JSONObject(it.jsonObject) }

    fun put(name: String, value: Any?): JSONObject = this

    companion object {
        @JvmField val NULL: Any = Any()
    }
}

class JSONArray(private val values: JsonArray) {
    constructor(values: Collection<*>) : this(JsonArray(listOf()))

    fun length(): Int = values.size

    fun getInt(index: Int): Int = values[index].jsonPrimitive.int

    fun getDouble(index: Int): Double = values[index].jsonPrimitive.double

    fun getString(index: Int): String = values[index].jsonPrimitive.content

    fun getJSONObject(index: Int): JSONObject = JSONObject(values[index].jsonObject)
}
