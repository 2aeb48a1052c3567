package dev.edgec.sample

/** A model with one id per word. */
internal class WordLevelModel(private val file: TokenizerFile, private val unknown: String) : TokenModel {
    override fun text(id: Int): String? = file.texts.getOrNull(id)

    override fun ids(word: String): IntArray {
        val id = file.ids[word] ?: file.ids[unknown]
        return intArrayOf(id ?: throw EdgecException("The tokenizer knows neither this word nor $unknown."))
    }
}
