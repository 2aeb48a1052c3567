package dev.edgec.sample

/** WordPiece: takes the longest token from the left, repeatedly; a word that leaves a rest is unknown as a whole. */
internal class WordPieceModel(
    private val file: TokenizerFile,
    unknown: String,
    private val prefix: String,
    private val longestWord: Int,
) : TokenModel {
    private val unknownId = intArrayOf(file.ids.getValue(unknown))

    override fun text(id: Int): String? = file.texts.getOrNull(id)

    override fun ids(word: String): IntArray {
        if (word.codePointCount(0, word.length) > longestWord) return unknownId
        val ids = ArrayList<Int>()
        var start = 0
        while (start < word.length) {
            val beginning = if (start > 0) prefix else ""
            val end = (word.length downTo start + 1).firstOrNull { beginning + word.substring(start, it) in file.ids }
            ids += file.ids.getValue(beginning + word.substring(start, end ?: return unknownId))
            start = end
        }
        return ids.toIntArray()
    }
}
