package dev.edgec.sample

import org.json.JSONArray
import org.json.JSONObject

/** The texts of golden.json, with their ids at export and what was shown of these, at once and in pieces. */
internal class GoldenTexts(golden: JSONObject) {
    private val texts = golden.getJSONArray("texts")

    /** The labels of the texts that this device's tokenizer reads or shows otherwise. */
    fun differing(decode: (List<Int>) -> String, encode: (String) -> List<Int>): List<String> =
        (0 until texts.length()).map(texts::getJSONObject)
            .filterNot { isRead(it, encode) && isShown(it, decode) }
            .map { it.getString("label") }

    private fun isRead(vector: JSONObject, encode: (String) -> List<Int>) = encode(vector.getString("text")) == ids(vector)

    private fun isShown(vector: JSONObject, decode: (List<Int>) -> String): Boolean {
        val ids = ids(vector)
        val whole = when {
            vector.getBoolean("round_trip") -> vector.getString("text")
            vector.has("decoded") -> vector.getString("decoded")
            else -> return true // an earlier edgec did not say
        }
        if (decode(ids) != whole) return false
        val stream = TextStream(ids.take(1), decode)
        val shown = decode(ids.take(1)) + ids.drop(1).joinToString("") { stream.push(it) } + stream.flush()
        return ids.isEmpty() || shown == if (vector.has("streamed")) vector.getString("streamed") else whole
    }

    private fun ids(vector: JSONObject): List<Int> = integers(vector.getJSONArray("ids"))

    private fun integers(array: JSONArray) = (0 until array.length()).map { array.getInt(it) }
}
