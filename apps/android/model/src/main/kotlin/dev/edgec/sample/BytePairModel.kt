package dev.edgec.sample

import java.util.PriorityQueue
import java.util.concurrent.ConcurrentHashMap

/** The options of a byte-pair model beside its merges. */
internal class BytePairOptions(
    val unknown: String?,
    val prefix: String,
    val suffix: String,
    val fuseUnknown: Boolean,
    val byteFallback: Boolean,
    val ignoreMerges: Boolean,
)

/** Byte-pair encoding: the earliest merge in the list first, the leftmost of equal ones; n log n in a word's length. */
internal class BytePairModel(private val file: TokenizerFile, private val options: BytePairOptions) : TokenModel {
    private val merges = MergeTable(file.merges) { pair ->
        val left = file.texts[(pair ushr 32).toInt()]
        val right = file.texts[pair.toInt()]!!.substring(options.prefix.length)
        file.ids.getValue(left + right)
    }
    private val unknownId = options.unknown?.let { file.ids.getValue(it) }
    private val byteIds = Array(256) { file.ids["<0x%02X>".format(it)] }
    private val cache = ConcurrentHashMap<String, IntArray>()

    override fun text(id: Int): String? = file.texts.getOrNull(id)

    override fun ids(word: String): IntArray {
        if (options.ignoreMerges) file.ids[word]?.let { return intArrayOf(it) }
        cache[word]?.let { return it }
        val ids = merged(symbols(word))
        if (word.length < LONG_WORD && cache.size < CACHED_WORDS) cache[word] = ids
        return ids
    }

    /** One id per character, or per byte of an unknown one; without bytes it becomes the unknown id, or is fused. */
    private fun symbols(word: String): IntArray {
        val ids = ArrayList<Int>(word.length)
        var unknowns = 0
        var at = 0
        while (at < word.length) {
            val end = at + Character.charCount(word.codePointAt(at))
            val prefix = if (at > 0) options.prefix else ""
            val symbol = prefix + word.substring(at, end) + if (end == word.length) options.suffix else ""
            at = end
            val id = file.ids[symbol]
            val bytes = if (id == null && options.byteFallback) bytes(symbol) else null
            if (id != null) {
                repeat(unknowns) { ids += unknownId!! }
                unknowns = 0
                ids += id
            } else if (bytes != null) {
                ids += bytes
            } else if (unknownId != null) {
                if (unknowns > 0 && !options.fuseUnknown) ids += unknownId
                unknowns = 1
            }
        }
        repeat(unknowns) { ids += unknownId!! }
        return ids.toIntArray()
    }

    private fun bytes(symbol: String): List<Int>? =
        symbol.toByteArray().map { byteIds[it.toInt() and 255] ?: return null }

    private fun merged(ids: IntArray): IntArray {
        val next = IntArray(ids.size) { it + 1 }
        val previous = IntArray(ids.size) { it - 1 }
        val gone = BooleanArray(ids.size)
        // Rank in the upper half, place in the lower half: the smallest is the earliest merge, leftmost first.
        val queue = PriorityQueue<Long>()
        fun offer(place: Int) {
            val rank = merges.rank(ids[place], ids[next[place]])
            if (rank >= 0) queue += MergeTable.key(rank, place)
        }
        for (place in 0 until ids.size - 1) offer(place)
        while (true) {
            val top = queue.poll() ?: break
            val place = top.toInt()
            val made = merges.made[(top ushr 32).toInt()]
            if (gone[place] || next[place] == ids.size) continue
            val right = next[place]
            val rank = merges.rank(ids[place], ids[right])
            if (rank < 0 || merges.made[rank] != made) continue
            ids[place] = made
            gone[right] = true
            next[place] = next[right]
            if (next[place] < ids.size) previous[next[place]] = place
            if (previous[place] >= 0) offer(previous[place])
            if (next[place] < ids.size) offer(place)
        }
        return ids.filterIndexed { place, _ -> !gone[place] }.toIntArray()
    }

    private companion object {
        const val LONG_WORD = 256
        const val CACHED_WORDS = 10_000
    }
}
