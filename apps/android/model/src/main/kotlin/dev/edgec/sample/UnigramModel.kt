package dev.edgec.sample

/** Unigram: of all ways to cut a word into tokens, takes the one with the highest total score. */
internal class UnigramModel(
    private val file: TokenizerFile,
    private val unknown: Int?,
    private val byteFallback: Boolean,
) : TokenModel {
    /** Tokens in the order of their characters, so that those with the same beginning are neighbours. */
    private val sorted = file.ids.keys.toTypedArray().also { it.sort() }
    private val unknownScore = (file.scores.minOrNull() ?: 0.0) - UNKNOWN_PENALTY

    override fun text(id: Int): String? = file.texts.getOrNull(id)

    override fun ids(word: String): IntArray = cut(word).flatMap(::idsOf).toIntArray()

    private fun idsOf(token: String): List<Int> {
        file.ids[token]?.let { return listOf(it) }
        val bytes = if (byteFallback) token.toByteArray().map { file.ids["<0x%02X>".format(it)] } else listOf(null)
        return if (null in bytes) listOf(required()) else bytes.filterNotNull()
    }

    private fun required(): Int = unknown ?: throw EdgecException("The tokenizer has no token for an unknown character.")

    /** The tokens of the best path; neighbouring unknown characters become one token. */
    private fun cut(word: String): List<String> {
        val path = BestPath(word.length)
        var at = 0
        while (at < word.length) {
            val character = Character.charCount(word.codePointAt(at))
            var alone = false
            for (end in ends(word, at)) {
                val id = file.ids.getValue(word.substring(at, end))
                path.offer(at, end, id, file.scores[id])
                if (end - at == character) alone = true
            }
            if (!alone) path.offer(at, at + character, required(), unknownScore)
            at += character
        }
        return path.tokens(word, unknown)
    }

    /** The ends of the tokens that begin at [start], shortest first. */
    private fun ends(word: String, start: Int): List<Int> {
        val ends = ArrayList<Int>()
        var low = 0
        var high = sorted.size
        for (end in start + 1..word.length) {
            val depth = end - 1 - start
            low = firstFrom(low, high, depth, word[end - 1].code)
            high = firstFrom(low, high, depth, word[end - 1].code + 1)
            if (low == high) break
            if (sorted[low].length == depth + 1) ends += end
        }
        return ends
    }

    /** The first of the tokens [low] until [high], equal up to [depth], that has [character] or a later one there. */
    private fun firstFrom(low: Int, high: Int, depth: Int, character: Int): Int {
        var from = low
        var until = high
        while (from < until) {
            val middle = (from + until) / 2
            val token = sorted[middle]
            if (token.length <= depth || token[depth].code < character) from = middle + 1 else until = middle
        }
        return from
    }

    private companion object {
        const val UNKNOWN_PENALTY = 10.0
    }
}

/** The best path to each place of a word. */
private class BestPath(size: Int) {
    private val from = IntArray(size + 1) { -1 }
    private val ids = IntArray(size + 1)
    private val scores = DoubleArray(size + 1)

    fun offer(start: Int, end: Int, id: Int, score: Double) {
        val sum = score + scores[start]
        if (from[end] >= 0 && sum <= scores[end]) return
        from[end] = start
        ids[end] = id
        scores[end] = sum
    }

    fun tokens(word: String, unknown: Int?): List<String> {
        val reversed = ArrayList<String>()
        var end = word.length
        while (end > 0) {
            var start = from[end]
            if (ids[end] == unknown) while (start > 0 && ids[start] == unknown) start = from[start]
            reversed += word.substring(start, end)
            end = start
        }
        return reversed.asReversed()
    }
}
