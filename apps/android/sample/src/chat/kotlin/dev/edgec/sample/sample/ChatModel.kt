package dev.edgec.sample.sample

import dev.edgec.sample.AnswerTimings
import dev.edgec.sample.ChatMessage
import dev.edgec.sample.EdgecException
import dev.edgec.sample.EdgecModel
import dev.edgec.sample.GenerationOptions
import dev.edgec.sample.LoadOptions
import dev.edgec.sample.LoadStep
import dev.edgec.sample.ModelFacts
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

    data object Answering : Stage

    data class Failed(val why: String) : Stage
}

/** One message as the screen shows it; the note of an answer is its timings, or why it ended early. */
data class Line(val role: ChatMessage.Role, val text: String, val note: String? = null, val pictures: Pictures = Pictures())

/** All that a screen shows; the notice says what the system asks for: less memory, less heat. */
data class ChatState(val stage: Stage = Stage.Unloaded, val lines: List<Line> = listOf(), val notice: String? = null, val chosen: Pictures = Pictures())

/**
 * A conversation with the model, and when the model is in memory. It knows nothing of screens, so that it can be tested.
 *
 * @param scope of one thread, from which it is called as well.
 * @param open loads the model.
 */
class ChatModel(
    private val scope: CoroutineScope,
    private val generation: GenerationOptions = GenerationOptions(),
    private val open: suspend (LoadOptions) -> EdgecModel,
) {
    private val shown = MutableStateFlow(ChatState())
    val state: StateFlow<ChatState> = shown
    private var model: EdgecModel? = null
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

    /** Answer a message; the answer grows in the last line. */
    fun send(text: String) {
        val opened = model
        if (shown.value.stage != Stage.Ready || opened == null || text.isEmpty()) return
        if (isHot) return notice(TOO_HOT)
        val before = shown.value.lines + Line(ChatMessage.Role.user, text, shown.value.chosen.note, shown.value.chosen)
        val messages = before.map { it.pictures.message(it.role, it.text) }
        shown.value = ChatState(Stage.Answering, before + Line(ChatMessage.Role.assistant, ""))
        // Begun at once: what is cancelled before it begins would never end the stage.
        work = scope.launch(start = CoroutineStart.UNDISPATCHED) { answer(opened, messages, before.last()) }
    }

    /** Pictures that the next message shows. */
    fun attach(pictures: Pictures) {
        if (shown.value.stage == Stage.Ready) shown.update { it.copy(chosen = pictures) }
    }

    /** End the answer that is being made; what has come of it stays. */
    fun stop() {
        work?.cancel()
    }

    /** Stop, and give the model's memory back; the conversation stays. */
    fun unload() {
        when (shown.value.stage) {
            is Stage.Loading -> unloadSoon = true
            Stage.Answering -> {
                unloadSoon = true
                stop()
            }
            else -> drop()
        }
    }

    /** Start a new conversation. */
    fun clear() {
        if (shown.value.stage != Stage.Answering) shown.update { it.copy(lines = listOf(), notice = null) }
    }

    /** `onTrimMemory`: the system is about to end apps for want of memory, of which the model has most. */
    fun trimMemory(level: Int) {
        if (level == UI_HIDDEN) return enteredBackground()
        if (level < RUNNING_LOW || shown.value.stage == Stage.Unloaded) return
        unload()
        notice("The system is short of memory: the model was unloaded.")
    }

    /** In the background an app may be ended at any time, and computes at others' cost; the model stays. */
    fun enteredBackground() {
        if (shown.value.stage == Stage.Answering) stop()
    }

    /** `PowerManager`'s thermal status: a hot device is slow, and a critical one may shut down, so the answer ends. */
    fun thermalStatusIs(status: Int) {
        isHot = status >= CRITICAL
        if (isHot) stop()
        notice(if (isHot) TOO_HOT else "The device is hot: answers come slower.".takeIf { status == SEVERE })
    }

    private suspend fun answer(opened: EdgecModel, messages: List<ChatMessage>, asked: Line) {
        try {
            val pieces = if (ModelFacts.RENDERS_CHAT) opened.chat(messages, generation) else asked.pictures.ask(opened, asked.text, generation)
            pieces.collect { piece -> last { it.copy(text = it.text + piece) } }
            last { it.copy(note = opened.lastTimings?.let(::words)) }
        } catch (error: CancellationException) {
            last { it.copy(note = "stopped") }
            throw error
        } catch (error: EdgecException) {
            last { it.copy(note = error.message) }
        } finally {
            enter(Stage.Ready)
            if (unloadSoon) drop()
        }
    }

    /** For example "TTFT 180 ms, 24.5 tokens/s (measured)". */
    private fun words(timings: AnswerTimings): String {
        val speed = timings.tokensPerSecond?.let { ", %.1f tokens/s".format(Locale.ROOT, it) }.orEmpty()
        return "TTFT %.0f ms".format(Locale.ROOT, timings.firstTokenMs) + speed + " (measured)"
    }

    private fun last(change: (Line) -> Line) = shown.update { it.copy(lines = it.lines.dropLast(1) + change(it.lines.last())) }

    /** Comes from any thread. */
    private fun show(step: LoadStep) =
        shown.update { if (it.stage is Stage.Loading) it.copy(stage = Stage.Loading(step)) else it }

    private fun enter(stage: Stage) = shown.update { it.copy(stage = stage) }

    private fun notice(text: String?) = shown.update { it.copy(notice = text) }

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
