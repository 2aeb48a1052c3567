package dev.edgec.sample

import android.util.JsonReader
import android.util.JsonToken
import java.io.File

/** A token that is matched in the text itself; [strips] says on which sides white space belongs to it. */
internal class AddedToken(val id: Int, val content: String, val normalized: Boolean, val special: Boolean, val strips: Sides)

internal class Sides(val left: Boolean, val right: Boolean)

/** Vocabulary, merges and added tokens of a tokenizer.json, read as a stream, since it can have tens of megabytes. */
internal class TokenizerFile private constructor() {
    val ids = HashMap<String, Int>()

    /** The scores of a Unigram model, by id. */
    val scores = ArrayList<Double>()
    val added = ArrayList<AddedToken>()

    /** The two ids of each merge, in order. */
    var merges = LongArray(0)
        private set
    private var mergeCount = 0

    /** Tokens by id. */
    val texts: Array<String?> by lazy {
        arrayOfNulls<String>((ids.values.maxOrNull() ?: -1) + 1).also { for ((text, id) in ids) it[id] = text }
    }

    private fun readAdded(json: JsonReader) {
        val texts = HashMap<String, String>()
        val flags = HashMap<String, Boolean>()
        json.forEachField { name ->
            if (json.peek() == JsonToken.BOOLEAN) flags[name] = json.nextBoolean() else texts[name] = json.nextString()
        }
        val sides = Sides(flags["lstrip"] == true, flags["rstrip"] == true)
        added += AddedToken(
            texts.getValue("id").toInt(),
            texts.getValue("content"),
            flags["normalized"] == true,
            flags["special"] == true,
            sides,
        )
    }

    private fun readModel(json: JsonReader) = json.forEachField { name ->
        when (name) {
            "vocab" -> readVocabulary(json)
            "merges" -> readMerges(json)
            else -> json.skipValue()
        }
    }

    private fun readVocabulary(json: JsonReader) {
        if (json.peek() == JsonToken.BEGIN_OBJECT) return json.forEachField { ids[it] = json.nextInt() }
        json.forEachItem {
            json.beginArray()
            ids[json.nextString()] = scores.size
            scores += json.nextDouble()
            json.endArray()
        }
    }

    /** Reads merges, which need the vocabulary: edgec refuses a file in which they come first. */
    private fun readMerges(json: JsonReader) {
        json.forEachItem {
            val (left, right) = if (json.peek() == JsonToken.BEGIN_ARRAY) pair(json) else json.nextString().split(' ')
            if (mergeCount == merges.size) merges = merges.copyOf(maxOf(1024, 2 * mergeCount))
            merges[mergeCount++] = MergeTable.key(ids.getValue(left), ids.getValue(right))
        }
        merges = merges.copyOf(mergeCount)
    }

    private fun pair(json: JsonReader): List<String> {
        json.beginArray()
        return listOf(json.nextString(), json.nextString()).also { json.endArray() }
    }

    companion object {
        fun read(path: File): TokenizerFile = TokenizerFile().apply {
            JsonReader(path.bufferedReader()).use { json ->
                json.forEachField { name ->
                    when (name) {
                        "added_tokens" -> json.forEachItem { readAdded(json) }
                        "model" -> readModel(json)
                        else -> json.skipValue()
                    }
                }
            }
        }
    }
}

private fun JsonReader.forEachField(take: (String) -> Unit) {
    beginObject()
    while (hasNext()) take(nextName())
    endObject()
}

private fun JsonReader.forEachItem(take: () -> Unit) {
    beginArray()
    while (hasNext()) take()
    endArray()
}
