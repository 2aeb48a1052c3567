package dev.edgec.sample

import java.io.File
import kotlin.math.abs
import org.json.JSONArray
import org.json.JSONObject

/** Replays golden.json on this device, at the first start of a bundle. */
internal class GoldenEncoder(bundle: File) {
    private val golden = JSONObject(File(bundle, "golden.json").readText())

    /** Every text must give the ids that it gave at export, except those whose labels are accepted. */
    fun checkTokens(encoder: TextEncoder, accepted: Set<String>) {
        val differing = objects(golden.getJSONArray("texts"))
            .filter { encoder.encode(it.getString("text")) != integers(it.getJSONArray("ids")) }
            .map { it.getString("label") } - accepted
        if (differing.isNotEmpty()) throw TokenizerDiffers(differing)
    }

    /** Values of the vectors of made-up inputs must be those at export, within their tolerance. */
    fun checkVectors(encoder: TextEncoder) {
        for (vector in objects(golden.getJSONArray("functions"))) check(vector, encoder)
    }

    private fun check(wanted: JSONObject, encoder: TextEncoder) {
        val bounds = wanted.getJSONObject("bounds")
        val made = encoder.vector(probe(bounds.getInt("input_ids")), probe(bounds.getInt("attention_mask")))
        val name = ModelFacts.methods[0].outputs[0].name
        val values = wanted.getJSONObject("values").getJSONArray(name)
        val tolerance = wanted.getDouble("tolerance")
        for ((place, index) in integers(wanted.getJSONObject("indices").getJSONArray(name)).withIndex()) {
            // Not `>`: NaN is never within the tolerance.
            if (!(abs(made[index] - values.getDouble(place)) <= tolerance)) {
                throw OutputDiffers("value $index of a vector is ${made[index]} instead of ${values.getDouble(place)}")
            }
        }
    }

    /** Inputs that every language can compute alike: (2654435761 * i + 12345) mod 2^32, then mod [bound]. */
    private fun probe(bound: Int) =
        LongArray(EncoderLimits.MOST_TOKENS) { (2654435761L * it + 12345L) % (1L shl 32) % maxOf(bound, 1) }

    private fun objects(array: JSONArray) = (0 until array.length()).map { array.getJSONObject(it) }

    private fun integers(array: JSONArray) = (0 until array.length()).map { array.getInt(it) }
}
