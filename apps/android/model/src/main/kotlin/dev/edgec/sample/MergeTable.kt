package dev.edgec.sample

/** The merges of pairs of tokens and their ranks, in a hash table without boxing, since there can be half a million. */
internal class MergeTable(pairs: LongArray, merged: (Long) -> Int) {
    private val mask = Integer.highestOneBit(maxOf(2 * pairs.size, 1)) * 2 - 1
    private val keys = LongArray(mask + 1) { -1 }
    private val ranks = IntArray(mask + 1)

    /** The token that each merge makes, by its rank. */
    val made = IntArray(pairs.size) { merged(pairs[it]) }

    init {
        for ((rank, pair) in pairs.withIndex()) {
            val place = place(pair)
            keys[place] = pair
            ranks[place] = rank
        }
    }

    /** The rank of the merge of two tokens, or -1. */
    fun rank(left: Int, right: Int): Int {
        val key = key(left, right)
        val place = place(key)
        return if (keys[place] == key) ranks[place] else -1
    }

    private fun place(key: Long): Int {
        var place = (key * -0x61c8864680b583ebL ushr 32).toInt() and mask
        while (keys[place] != -1L && keys[place] != key) place = (place + 1) and mask
        return place
    }

    companion object {
        fun key(left: Int, right: Int): Long = left.toLong() shl 32 or right.toLong()
    }
}
