package dev.edgec.sample

import java.io.File
import org.json.JSONArray
import org.json.JSONObject

/** Replays golden.json on this device, at the first start of a bundle. */
internal class GoldenSpeech(bundle: File) {
    private val golden = JSONObject(File(bundle, "golden.json").readText())

    /** Every text must give the ids and be shown as at export, except those whose labels are accepted. */
    fun checkTokens(tokenizer: Tokenizer, accepted: Set<String>) {
        val differing = GoldenTexts(golden).differing({ tokenizer.decode(it) }) { tokenizer.encode(it, true) } - accepted
        if (differing.isNotEmpty()) throw TokenizerDiffers(differing)
    }

    /** The greedy text after a made-up source must be the one at export, except where its lead was within the tolerance. */
    fun checkOutputs(runtime: SpeechRuntime) {
        runtime.read(FloatArray(SpeechFacts.GOLDEN_VALUES) { probe(it) })
        for (output in objects(golden.getJSONArray("outputs"))) check(output, runtime)
    }

    private fun check(output: JSONObject, runtime: SpeechRuntime) {
        val tokens = integers(output.getJSONArray("prompt_ids")) + integers(output.getJSONArray("continuation_ids"))
        val prompt = output.getJSONArray("prompt_ids").length()
        val margins = output.getJSONArray("margins")
        for (position in 0 until tokens.size - 1) {
            val logits = runtime.feed(tokens[position], position)
            val step = position - prompt + 1
            if (step < 0) continue
            val likeliest = logits.indices.maxBy { logits[it] }
            if (likeliest != tokens[position + 1] && margins.getDouble(step) > output.getDouble("tolerance")) {
                throw OutputDiffers("after ${position + 1} tokens the likeliest is $likeliest instead of ${tokens[position + 1]}")
            }
        }
    }

    /** Numbers that every language can compute alike: (2654435761 * i + 12345) mod 2^32, in -1..1. */
    private fun probe(index: Int) = ((2654435761L * index + 12345L) % (1L shl 32) / 2147483648.0 - 1).toFloat()

    private fun objects(array: JSONArray) = (0 until array.length()).map { array.getJSONObject(it) }

    private fun integers(array: JSONArray) = (0 until array.length()).map { array.getInt(it) }
}
