package dev.edgec.sample

import android.content.Context
import java.io.Closeable
import java.io.File
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
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

/**
 * A loaded model that transcribes speech. Calls are answered one after another. Cancelling a call's coroutine ends it before
 * its next token; a window that the encoder reads is read to its end.
 */
class EdgecTranscriber private constructor(
    private val runtime: SpeechRuntime,
    private val tokenizer: Tokenizer,
) : Closeable {
    private val oneAtATime = Mutex()

    /**
     * Write what is said in samples in -1..1 of one channel.
     *
     * @param sampleRate of the samples; another one than [SpeechLimits.SAMPLING_RATE] is [SoundRateDiffers].
     * @param show called with each segment as soon as it is certain, on no particular thread.
     */
    suspend fun transcribe(
        samples: FloatArray,
        sampleRate: Int,
        options: TranscriptionOptions = TranscriptionOptions(),
        show: (SpeechSegment) -> Unit = {},
    ): Transcript = whole(Sound.Samples(samples, sampleRate), options, show)

    /** Write what is said in a WAV [file] at [SpeechLimits.SAMPLING_RATE]; its channels are averaged. */
    suspend fun transcribe(
        file: File,
        options: TranscriptionOptions = TranscriptionOptions(),
        show: (SpeechSegment) -> Unit = {},
    ): Transcript = whole(Sound.Wav(file), options, show)

    /** The segments of [transcribe], each as soon as it is certain. */
    fun segments(
        samples: FloatArray,
        sampleRate: Int,
        options: TranscriptionOptions = TranscriptionOptions(),
    ): Flow<SpeechSegment> = flow<SpeechSegment> {
        write(Sound.Samples(samples, sampleRate), options) { emit(it) }
    }.buffer(Channel.UNLIMITED).flowOn(Dispatchers.Default)

    /** The segments of a WAV file, likewise. */
    fun segments(file: File, options: TranscriptionOptions = TranscriptionOptions()): Flow<SpeechSegment> =
        flow<SpeechSegment> { write(Sound.Wav(file), options) { emit(it) } }.buffer(Channel.UNLIMITED).flowOn(Dispatchers.Default)

    override fun close() = runtime.close()

    private suspend fun whole(sound: Sound, options: TranscriptionOptions, show: (SpeechSegment) -> Unit): Transcript =
        withContext(Dispatchers.Default) {
            val segments = ArrayList<SpeechSegment>()
            val summary = write(sound, options) { segment ->
                segments += segment
                show(segment)
            }
            val text = segments.joinToString("") { it.text }.trim()
            Transcript(text, segments, summary.language, summary.timings)
        }

    /** Transcribe a sound in segments that [show] gets. */
    private suspend fun write(
        sound: Sound,
        options: TranscriptionOptions,
        show: suspend (SpeechSegment) -> Unit,
    ): TranscribedSummary = oneAtATime.withLock {
        if (options.maxNewTokens != null && options.maxNewTokens < 1) throw OptionOutOfRange("maxNewTokens")
        runtime.begin(sound, options)
        val firstTimestamp = runtime.summary().firstTimestamp
        var progress = StepProgress.WORKED
        while (progress != StepProgress.DONE) {
            currentCoroutineContext().ensureActive()
            progress = runtime.step()
            if (progress == StepProgress.SEGMENT) show(named(runtime.segment(), firstTimestamp))
        }
        runtime.summary()
    }

    /** A segment with its text, to which timestamps do not belong. */
    private fun named(segment: TranscribedSegment, firstTimestamp: Int): SpeechSegment {
        val said = segment.tokens.filter { firstTimestamp < 0 || it < firstTimestamp }
        return SpeechSegment(segment.startS, segment.endS, tokenizer.decode(said), segment.tokens)
    }

    companion object {
        /** Copy the bundle out of the assets, check it and the memory, load it; at the first start replay its golden vectors. */
        suspend fun load(context: Context, options: LoadOptions = LoadOptions()): EdgecTranscriber =
            opened {
                val bundle = BundleFiles.prepare(context, options.bundle, options.hashAlways, options.progress)
                MemoryCheck.run(context, bundle.neededBytes)
                options.progress(LoadStep.Loading)
                val tokenizer = Tokenizer(TokenizerSteps.OF_MODEL, File(bundle.folder, "tokenizer/tokenizer.json"))
                val runtime = SpeechRuntime(bundle.folder)
                try {
                    if (!bundle.isDone("golden")) {
                        options.progress(LoadStep.Comparing)
                        val golden = GoldenSpeech(bundle.folder)
                        golden.checkTokens(tokenizer, options.acceptedTexts)
                        golden.checkOutputs(runtime)
                        bundle.finish("golden")
                    }
                    EdgecTranscriber(runtime, tokenizer)
                } catch (failure: Throwable) {
                    runtime.close()
                    throw failure
                }
            }
    }
}
