package dev.edgec.sample

import android.content.Context
import java.io.Closeable
import java.io.File
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock
import kotlinx.coroutines.withContext

/**
 * How a model is loaded.
 *
 * @property hashAlways hash every file at every load, not only at the first.
 * @property acceptedTexts labels of golden texts whose token ids may differ from those at export.
 * @property bundle the bundle's folder, where it was downloaded ([BundleDownload]) and is not among the assets; the app
 *   must be able to write there. With a pinned key (`edgec embed --public-key`) it may be another bundle that the key's
 *   holder signed and that fits this app.
 * @property progress called with what `load` does, on no particular thread.
 */
data class LoadOptions(
    val hashAlways: Boolean = false,
    val acceptedTexts: Set<String> = setOf(),
    val progress: (LoadStep) -> Unit = {},
    val bundle: File? = null,
)

/** A loaded sentence encoder, which makes one vector of a text. Calls are answered one after another. */
class EdgecModel private constructor(private val runtime: ModelRuntime, private val encoder: TextEncoder) : Closeable {
    private val oneAtATime = Mutex()

    /**
     * The vector of a text, [EncoderLimits.WIDTH] values; of length 1 where the model's authors normalise.
     *
     * @param truncate cut a text above [EncoderLimits.MOST_TOKENS] tokens as the model's tokenizer does, instead of
     *   throwing [TextTooLong].
     * @param promptName which of [EncoderLimits.PROMPTS] goes before the text; null: the default, if there is one;
     *   empty: none.
     */
    suspend fun embed(text: String, truncate: Boolean = false, promptName: String? = null): FloatArray =
        embed(listOf(text), truncate, promptName).single()

    /** The vector of each text, in order; all are read before the first is computed. */
    suspend fun embed(
        texts: List<String>, truncate: Boolean = false, promptName: String? = null,
    ): List<FloatArray> =
        withContext(Dispatchers.Default) {
            val read = texts.map { encoder.read(it, truncate, promptName) }
            oneAtATime.withLock {
                read.map { text ->
                    ensureActive()
                    encoder.vector(text)
                }
            }
        }

    /** How many tokens a text has, with those that the tokenizer puts around it and without a prompt. */
    fun tokenCount(text: String): Int = encoder.encode(text).size

    override fun close() = runtime.close()

    companion object {
        /** Copy the bundle out of the assets, check it and the memory, load it; at the first start replay its golden vectors. */
        suspend fun load(context: Context, options: LoadOptions = LoadOptions()): EdgecModel =
            opened {
                val bundle = BundleFiles.prepare(context, options.bundle, options.hashAlways, options.progress)
                MemoryCheck.run(context, bundle.neededBytes)
                options.progress(LoadStep.Loading)
                val runtime = ModelRuntime.open(context, File(bundle.folder, ModelFacts.ARTIFACT))
                try {
                    val encoder = TextEncoder(bundle.folder, runtime)
                    if (!bundle.isDone("golden")) {
                        options.progress(LoadStep.Comparing)
                        val golden = GoldenEncoder(bundle.folder)
                        golden.checkTokens(encoder, options.acceptedTexts)
                        golden.checkVectors(encoder)
                        bundle.finish("golden")
                    }
                    EdgecModel(runtime, encoder)
                } catch (failure: Throwable) {
                    runtime.close()
                    throw failure
                }
            }
    }
}
