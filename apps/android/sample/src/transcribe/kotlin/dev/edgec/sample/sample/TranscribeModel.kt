package dev.edgec.sample.sample

import dev.edgec.sample.EdgecException
import dev.edgec.sample.EdgecTranscriber
import dev.edgec.sample.LoadOptions
import dev.edgec.sample.LoadStep
import dev.edgec.sample.SpeechLimits
import dev.edgec.sample.SpeechSegment
import dev.edgec.sample.Transcript
import dev.edgec.sample.TranscriptTimings
import dev.edgec.sample.TranscriptionOptions
import java.io.File
import java.io.IOException
import java.util.Locale
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch

/** What the model is doing. */
sealed interface Stage {
    data object Unloaded : Stage

    data class Loading(val step: LoadStep?) : Stage

    data object Ready : Stage

    data object Recording : Stage

    data object Writing : Stage

    data class Failed(val why: String) : Stage
}

/** All that a screen shows: what was said, and a note: how fast it was written, what went wrong, or what the system asks for. */
data class TranscribeState(
    val stage: Stage = Stage.Unloaded,
    val segments: List<SpeechSegment> = listOf(),
    val note: String? = null,
)

/** Where sound comes from: the microphone, or a test. */
interface SoundSource {
    /** The samples that come until [end] is called, of one channel at [SpeechLimits.SAMPLING_RATE]. */
    suspend fun samples(): FloatArray

    fun end()
}

/**
 * What is said, in writing, and when the model is in memory. It knows nothing of screens, so that it can be tested.
 *
 * @param scope of one thread, from which it is called as well.
 * @param open loads the model.
 */
class TranscribeModel(
    private val scope: CoroutineScope,
    private val microphone: SoundSource,
    private val options: TranscriptionOptions = TranscriptionOptions(),
    private val open: suspend (LoadOptions) -> EdgecTranscriber,
) {
    private val shown = MutableStateFlow(TranscribeState())
    val state: StateFlow<TranscribeState> = shown
    private var model: EdgecTranscriber? = null
    private var work: Job? = null
    private var unloadSoon = false
    private var isHot = false

    /** Load the model, step by step on the screen; nothing where it is loaded already. */
    fun load() {
        val stage = shown.value.stage
        if (stage != Stage.Unloaded && stage !is Stage.Failed) return
        unloadSoon = false
        enter(Stage.Loading(null))
        // What was opened must be closed, even if the screen is gone by then.
        scope.launch(NonCancellable) {
            try {
                model = open(LoadOptions(progress = ::show))
                enter(Stage.Ready)
            } catch (error: EdgecException) {
                enter(Stage.Failed(error.message.orEmpty()))
            }
            if (unloadSoon) drop()
        }
    }

    /** Listen until [finish], then write what was said. The app has the permission to record by then. */
    fun record() = begin(Stage.Recording) { opened ->
        val samples = microphone.samples()
        enter(Stage.Writing)
        opened.transcribe(samples, SpeechLimits.SAMPLING_RATE, options, ::add)
    }

    /** End the recording; what was said is written. */
    fun finish() = microphone.end()

    /** Write what is said in a WAV file, which [file] fetches. */
    fun transcribe(file: suspend () -> File) = begin(Stage.Writing) { it.transcribe(file(), options, ::add) }

    /** End what is being recorded or written; what has come of it stays. */
    fun stop() {
        work?.cancel()
    }

    /** Stop, and give the model's memory back; the text stays. */
    fun unload() {
        when (shown.value.stage) {
            is Stage.Loading -> unloadSoon = true
            Stage.Recording, Stage.Writing -> {
                unloadSoon = true
                stop()
            }
            else -> drop()
        }
    }

    /** `onTrimMemory`: the system is about to end apps for want of memory, of which the model has most. */
    fun trimMemory(level: Int) {
        if (level == UI_HIDDEN) return enteredBackground()
        if (level < RUNNING_LOW || shown.value.stage == Stage.Unloaded) return
        unload()
        note("The system is short of memory: the model was unloaded.")
    }

    /** In the background an app may not record, and computes at others' cost; the model stays. */
    fun enteredBackground() = stop()

    /** `PowerManager`'s thermal status: a hot device is slow, and a critical one may shut down, so the work ends. */
    fun thermalStatusIs(status: Int) {
        isHot = status >= CRITICAL
        if (isHot) stop()
        note(if (isHot) TOO_HOT else "The device is hot: writing takes longer.".takeIf { status == SEVERE })
    }

    private fun begin(stage: Stage, write: suspend (EdgecTranscriber) -> Transcript) {
        val opened = model
        if (shown.value.stage != Stage.Ready || opened == null) return
        if (isHot) return note(TOO_HOT)
        shown.value = TranscribeState(stage)
        // Begun at once: what is cancelled before it begins would never end the stage.
        work = scope.launch(start = CoroutineStart.UNDISPATCHED) { settle { write(opened) } }
    }

    private suspend fun settle(write: suspend () -> Transcript) {
        try {
            note(words(write().timings))
        } catch (error: CancellationException) {
            note("stopped")
            throw error
        } catch (error: EdgecException) {
            note(error.message)
        } catch (error: IOException) {
            note("The sound cannot be read: ${error.message}.")
        } finally {
            enter(Stage.Ready)
            if (unloadSoon) drop()
        }
    }

    /** For example "12.0 s of sound, 8.5 s of it a second (measured)". */
    private fun words(timings: TranscriptTimings) =
        "%.1f s of sound, %.1f s of it a second (measured)".format(Locale.ROOT, timings.soundS, timings.speed)

    /** Comes from any thread. */
    private fun add(segment: SpeechSegment) = shown.update { it.copy(segments = it.segments + segment) }

    /** Comes from any thread. */
    private fun show(step: LoadStep) =
        shown.update { if (it.stage is Stage.Loading) it.copy(stage = Stage.Loading(step)) else it }

    private fun enter(stage: Stage) = shown.update { it.copy(stage = stage) }

    private fun note(text: String?) = shown.update { it.copy(note = text) }

    private fun drop() {
        model?.close()
        model = null
        unloadSoon = false
        enter(Stage.Unloaded)
    }

    private companion object {
        const val TOO_HOT = "The device is too hot. Wait until it has cooled down."

        // Of ComponentCallbacks2 and PowerManager, whose classes a test on a desktop does not have.
        const val RUNNING_LOW = 10
        const val UI_HIDDEN = 20
        const val SEVERE = 3
        const val CRITICAL = 4
    }
}
