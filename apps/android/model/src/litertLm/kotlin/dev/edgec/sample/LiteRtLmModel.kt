package dev.edgec.sample

import android.content.Context
import com.google.ai.edge.litertlm.Contents
import com.google.ai.edge.litertlm.ConversationConfig
import com.google.ai.edge.litertlm.Engine
import com.google.ai.edge.litertlm.EngineConfig
import com.google.ai.edge.litertlm.LiteRtLmJniException
import com.google.ai.edge.litertlm.SamplerConfig
import java.io.Closeable
import java.io.File

/** LiteRT-LM refused the artifact or a call, or failed in it. */
class LiteRtLmFailed(why: String) : EdgecException("LiteRT-LM failed: $why.")

/**
 * How a model is loaded.
 *
 * @property hashAlways hash every file at every load, not only at the first.
 * @property bundle the bundle's folder, where it was downloaded ([BundleDownload]) and is not among the assets; the app
 *   must be able to write there. With a pinned key (`edgec embed --public-key`) it may be another bundle that the key's
 *   holder signed and that fits this app.
 * @property progress called with what `load` does, on no particular thread.
 */
data class LoadOptions(
    val hashAlways: Boolean = false,
    val progress: (LoadStep) -> Unit = {},
    val bundle: File? = null,
)

/**
 * A language model in LiteRT-LM, which reads tokenizer, chat template, ends of texts and the authors' way to choose tokens
 * from the artifact.
 */
class EdgecModel private constructor(private val config: EngineConfig) : Closeable {
    private var engine: Engine? = started(config)
    private var current: ModelConversation? = null

    /**
     * Begin a conversation, which ends the one before it.
     *
     * On a GPU that opens the engine again, which takes as long as [load]: there, LiteRT-LM 0.18.1 lets a second session of
     * an engine read what the first one left.
     *
     * @param system what the conversation begins with, as a message of the system; null: nothing.
     * @param sampling how tokens are chosen; null: as the artifact says.
     */
    @Synchronized
    fun conversation(system: String? = null, sampling: SamplerConfig? = null): ModelConversation {
        var opened = engine ?: throw ModelClosed()
        val before = current
        before?.close()
        if (before != null && ENGINE_FOR_EACH_CONVERSATION) {
            engine = null
            opened.close()
            opened = started(config).also { engine = it }
        }
        val settings = ConversationConfig(systemInstruction = system?.let { Contents.of(it) }, samplerConfig = sampling)
        return ModelConversation(inLiteRtLm { opened.createConversation(settings) }).also { current = it }
    }

    @Synchronized
    override fun close() {
        current?.close()
        engine?.close()
        engine = null
    }

    companion object {
        /** Copy the bundle out of the assets, check it and the memory, open it. */
        suspend fun load(context: Context, options: LoadOptions = LoadOptions()): EdgecModel =
            opened {
                val bundle = BundleFiles.prepare(context, options.bundle, options.hashAlways, options.progress)
                MemoryCheck.run(context, bundle.neededBytes)
                options.progress(LoadStep.Loading)
                // LiteRT-LM writes weights as its kernels read them: not beside the artifact, whose folder was checked.
                val laidOut = File(context.cacheDir, "edgec/dev.edgec.sample/${ModelFacts.DIGEST}")
                laidOut.mkdirs()
                val artifact = File(bundle.folder, ModelFacts.ARTIFACT)
                EdgecModel(EngineConfig(artifact.path, backend = unitBackend(), cacheDir = laidOut.path))
            }

        private fun started(config: EngineConfig): Engine = inLiteRtLm { Engine(config).also { it.initialize() } }
    }
}

/** Let an error of LiteRT-LM end as one of edgec's. */
internal fun <T> inLiteRtLm(call: () -> T): T = try {
    call()
} catch (failed: LiteRtLmJniException) {
    throw LiteRtLmFailed(failed.message.orEmpty())
}
