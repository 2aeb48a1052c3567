package dev.edgec.sample

import android.content.Context
import java.io.Closeable
import java.io.File
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.FlowCollector
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOn
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

/** Why an answer ended; COMPLETE: it is held to a schema and whole. */
enum class FinishReason { END_OF_TEXT, STOP_TEXT, LENGTH, CONTEXT, COMPLETE }

/** A loaded language model. Calls are answered one after another; the cache is kept between them. */
class EdgecModel private constructor(
    private val runtime: ModelRuntime,
    internal val session: Session,
    internal val tokenization: Tokenization,
    private val systemPrompt: String?,
    private val folder: File,
    private val artifactSha256: String,
    internal val constrainedCalls: ConstrainedCalls,
) : Closeable {
    private val oneAtATime = Mutex()

    /** The adapter's file that is added, or null; [useAdapter] changes it. */
    @Volatile
    var adapter: File? = null
        private set

    /** Why the last answer ended; null while one is made, and after one that failed or was cancelled. */
    @Volatile
    var lastFinish: FinishReason? = null
        private set

    /** How long the last answer took; null while one is made, and after one that failed or was cancelled. */
    @Volatile
    var lastTimings: AnswerTimings? = null
        private set

    /** The last whole [reply]; null while one is made, and after one that failed or was cancelled. */
    @Volatile
    var lastReply: Reply? = null
        internal set

    /**
     * Continue a text; each element is a piece of new text. Pieces wait for a slow collector, which holds up nobody else.
     *
     * With a [schema] of the bundle the answer is JSON that fulfils it, and ends where it is whole; only one whose tokens
     * run out first (`lastFinish` is LENGTH or CONTEXT) is unfinished.
     */
    fun generate(prompt: String, options: GenerationOptions = GenerationOptions(), schema: ModelSchema? = null): Flow<String> =
        answer(options, schema) { encode(prompt) }

    /** Answer a conversation, as [generate] does; it begins with the bundle's system prompt unless it brings its own. */
    fun chat(
        messages: List<ChatMessage>,
        options: GenerationOptions = GenerationOptions(),
        schema: ModelSchema? = null,
    ): Flow<String> = answer(options, schema) { encode(messages) }

    /** Continue token ids; each element is a new id, and only the limits or the end of a [schema]'s text end it. */
    fun generate(tokens: List<Int>, options: GenerationOptions = GenerationOptions(), schema: ModelSchema? = null): Flow<Int> =
        flow {
            oneAtATime.withLock {
                forget()
                forEachToken(tokens, options, schema?.let { constrained(it, options, room(tokens, options)) }) { token ->
                    emit(token)
                    FinishReason.END_OF_TEXT.takeIf { schema != null && token in TextFacts.stopTokens }
                }
            }
        }.buffer(Channel.UNLIMITED).flowOn(Dispatchers.Default)

    /** The whole JSON of an answer to a text, for a parser; [AnswerUnfinished] where its tokens run out first. */
    suspend fun generateJson(prompt: String, schema: ModelSchema, options: GenerationOptions = GenerationOptions()): String =
        whole(options, schema) { encode(prompt) }

    /** The whole JSON of an answer in a conversation, as [generateJson]. */
    suspend fun chatJson(
        messages: List<ChatMessage>,
        schema: ModelSchema,
        options: GenerationOptions = GenerationOptions(),
    ): String = whole(options, schema) { encode(messages) }

    /** Token ids of a text, with the tokenizer's own leading tokens. */
    fun tokenCount(text: String): Int = tokenization.encode(text).size

    /** Forget the conversation that the cache holds. */
    suspend fun reset() = oneAtATime.withLock { session.reset() }

    /**
     * Add the adapter in a [file] that `edgec adapter` made for this bundle, from the next answer on; null: none. The cache
     * is emptied, since it was computed without it. One that is refused ([AdapterRefused]) changes nothing.
     */
    suspend fun useAdapter(file: File?) = withContext(Dispatchers.IO) {
        oneAtATime.withLock {
            runtime.useAdapter(file, artifactSha256)
            adapter = file
            session.reset()
        }
    }

    override fun close() = runtime.close()

    private fun encode(prompt: String): List<Int> =
        tokenization.encode((if (TextFacts.SYSTEM_PROMPT_IS_CHAT) "" else systemPrompt.orEmpty()) + prompt)

    private fun encode(messages: List<ChatMessage>): List<Int> = prompt(opened(messages))

    /** The tokens of a conversation in the [pieces] of a prompt, else by the template with these [switches]. */
    internal fun encode(messages: List<ChatMessage>, pieces: PromptPieces?, switches: Map<String, Boolean>): List<Int> =
        prompt(messages, pieces, switches)

    /** The conversation after the bundle's system prompt, unless it brings its own. */
    internal fun opened(messages: List<ChatMessage>): List<ChatMessage> {
        val own = messages.firstOrNull()?.role == ChatMessage.Role.system
        val opening = systemPrompt.takeIf { TextFacts.SYSTEM_PROMPT_IS_CHAT && !own }
        return listOfNotNull(opening?.let { ChatMessage(ChatMessage.Role.system, it) }) + messages
    }

    /** Compute something while no answer is made. */
    internal suspend fun <T> exclusively(compute: suspend () -> T): T =
        withContext(Dispatchers.Default) { oneAtATime.withLock { compute() } }

    /** What [write] emits, as an answer of its own. */
    internal fun <T> pieces(write: suspend FlowCollector<T>.(Tokenization) -> Unit): Flow<T> = flow {
        oneAtATime.withLock {
            forget()
            try {
                write(tokenization)
            } catch (error: EdgecException) {
                forget()
                throw error
            }
        }
    }.buffer(Channel.UNLIMITED).flowOn(Dispatchers.Default)

    internal fun answer(options: GenerationOptions, schema: ModelSchema?, encode: () -> List<Int>): Flow<String> = flow {
        oneAtATime.withLock { write(encode, options, schema) { emit(it) } }
    }.buffer(Channel.UNLIMITED).flowOn(Dispatchers.Default)

    internal suspend fun whole(options: GenerationOptions, schema: ModelSchema, encode: () -> List<Int>): String =
        withContext(Dispatchers.Default) {
            val text = StringBuilder()
            val finish = oneAtATime.withLock { write(encode, options, schema) { text.append(it) } }
            if (finish == FinishReason.LENGTH || finish == FinishReason.CONTEXT) throw AnswerUnfinished(text.toString(), finish)
            text.toString()
        }

    /** Write an answer, in pieces that [show] gets. */
    private suspend fun write(
        encode: () -> List<Int>,
        options: GenerationOptions,
        schema: ModelSchema?,
        show: suspend (String) -> Unit,
    ): FinishReason {
        forget()
        val prompt = encode()
        val text = TextStream(prompt) { tokenization.decode(it) }
        val stops = StopText(options.stop)
        val finish = forEachToken(prompt, options, schema?.let { constrained(it, options, room(prompt, options)) }) { token ->
            if (token in TextFacts.stopTokens) return@forEachToken FinishReason.END_OF_TEXT
            val piece = stops.feed(text.push(token))
            if (piece.isNotEmpty()) show(piece)
            if (stops.hit == null) null else FinishReason.STOP_TEXT
        }
        val rest = if (stops.hit == null) stops.feed(text.flush()) + stops.flush() else ""
        if (rest.isNotEmpty()) show(rest)
        return finish
    }

    private fun forget() {
        lastFinish = null
        lastTimings = null
        lastReply = null
    }

    /** Draw tokens until [take] gives a reason to stop, a limit is reached, or a text that is [given] to be held ends. */
    internal suspend fun forEachToken(
        prompt: List<Int>,
        options: GenerationOptions,
        given: ConstrainedText?,
        take: suspend (Int) -> FinishReason?,
    ): FinishReason = given.use { held ->
        val sampler = Sampler(options)
        val stopwatch = Stopwatch()
        val tokens = prompt.toMutableList()
        val context = currentCoroutineContext()
        session.begin(prompt) { context.ensureActive() }
        var reason: FinishReason? = null
        while (reason == null) {
            context.ensureActive()
            val logits = session.prefill(tokens) { context.ensureActive() }
            held?.mask(logits)
            val token = sampler.next(logits, tokens)
            held?.take(token)
            stopwatch.tokenCame()
            tokens += token
            reason = take(token) ?: end(held, tokens.size - prompt.size, tokens.size, options)
        }
        lastFinish = reason
        lastTimings = stopwatch.timings(prompt.size)
        reason
    }

    /** The most tokens of an answer; a prompt that is too long is refused with the first call of the model. */
    internal fun room(prompt: List<Int>, options: GenerationOptions): Int {
        val room = ModelLimits.CONTEXT + 1 - prompt.size
        return maxOf(1, minOf(options.maxNewTokens ?: room, room))
    }

    internal fun constrained(schema: ModelSchema, options: GenerationOptions, tokens: Int): ConstrainedText {
        if (options.stop.isNotEmpty()) throw SchemaRefused("stop texts would cut it")
        return constrained(ConstrainedStructure.of(schema, folder), tokens)
    }

    internal fun constrained(structure: ConstrainedStructure, tokens: Int) = SchemaRuntime.of(runtime).holdTo(structure, tokens)

    private fun end(held: ConstrainedText?, new: Int, all: Int, options: GenerationOptions): FinishReason? {
        if (held?.progress == TextProgress.ENDED) return FinishReason.COMPLETE
        val limit = when {
            options.maxNewTokens != null && new >= options.maxNewTokens -> FinishReason.LENGTH
            all > ModelLimits.CONTEXT -> FinishReason.CONTEXT
            else -> return null
        }
        return if (held?.progress == TextProgress.WHOLE) FinishReason.COMPLETE else limit
    }

    companion object {
        /** Copy the bundle out of the assets, check it and the memory, load it; at the first start replay its golden vectors. */
        suspend fun load(context: Context, options: LoadOptions = LoadOptions()): EdgecModel =
            opened {
                val bundle = BundleFiles.prepare(context, options.bundle, options.hashAlways, options.progress)
                MemoryCheck.run(context, bundle.neededBytes)
                val folder = bundle.folder
                options.progress(LoadStep.Loading)
                val tokenization = Tokenization(folder)
                val runtime = ModelRuntime.open(context, File(folder, ModelFacts.ARTIFACT))
                try {
                    val session = Session(runtime)
                    if (!bundle.isDone("golden")) {
                        options.progress(LoadStep.Comparing)
                        val golden = GoldenReplay(folder)
                        golden.checkTokens(tokenization, options.acceptedTexts)
                        golden.checkOutputs(session)
                        bundle.finish("golden")
                    }
                    val calls = ConstrainedCalls(context.assets, File(context.noBackupFilesDir, "edgec-calls/dev.edgec.sample"))
                    EdgecModel(runtime, session, tokenization, systemPrompt(folder), folder, bundle.artifactSha256, calls)
                } catch (failure: Throwable) {
                    runtime.close()
                    throw failure
                }
            }

        private fun systemPrompt(folder: File): String? =
            TextFacts.SYSTEM_PROMPT_FILE.takeIf { it.isNotEmpty() }?.let { File(folder, it).readText() }
    }
}
