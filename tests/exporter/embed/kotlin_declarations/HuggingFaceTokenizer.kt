package ai.djl.huggingface.tokenizers
class Encoding { val ids: LongArray get() = longArrayOf() }
class HuggingFaceTokenizer : AutoCloseable {
    fun encode(text: String, addSpecialTokens: Boolean, withOverflowingTokens: Boolean): Encoding = Encoding()
    fun decode(ids: LongArray, skipSpecialTokens: Boolean): String = ""
    override fun close() {}
    companion object { @JvmStatic fun newInstance(path: java.nio.file.Path): HuggingFaceTokenizer = HuggingFaceTokenizer() }
}
