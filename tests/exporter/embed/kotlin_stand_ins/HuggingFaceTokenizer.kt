package ai.djl.huggingface.tokenizers

/** A stand-in: token ids are bytes, and 1 stands in front of every text. */
class Encoding(val ids: LongArray)

class HuggingFaceTokenizer : AutoCloseable {
    fun encode(text: String, addSpecialTokens: Boolean, withOverflowingTokens: Boolean): Encoding {
        val bytes = text.toByteArray().map { (it.toInt() and 255).toLong() }
        return Encoding(((if (addSpecialTokens) listOf(1L) else listOf()) + bytes).toLongArray())
    }

    fun decode(ids: LongArray, skipSpecialTokens: Boolean): String =
        String(ids.filter { it > 1 }.map { it.toByte() }.toByteArray())

    override fun close() {}

    companion object {
        @JvmStatic fun newInstance(path: java.nio.file.Path): HuggingFaceTokenizer = HuggingFaceTokenizer()
    }
}
