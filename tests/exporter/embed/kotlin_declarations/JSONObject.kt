package org.json
class JSONObject(text: String = "{}") {
    fun getString(name: String): String = ""
    fun getInt(name: String): Int = 0
    fun getDouble(name: String): Double = 0.0
    fun getJSONArray(name: String): JSONArray = JSONArray()
    fun optJSONObject(name: String): JSONObject? = null
    fun put(name: String, value: Any?): JSONObject = this
    companion object { @JvmField val NULL: Any = Any() }
}
class JSONArray(values: Collection<*> = listOf<Any>()) {
    fun length(): Int = 0
    fun getInt(index: Int): Int = 0
    fun getDouble(index: Int): Double = 0.0
    fun getJSONObject(index: Int): JSONObject = JSONObject()
}
