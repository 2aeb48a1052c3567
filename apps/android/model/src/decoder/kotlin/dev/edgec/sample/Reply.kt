package dev.edgec.sample

import kotlinx.coroutines.flow.Flow

/** The model opened a call of a tool and did not write one; [text] is all of its message, with the markers. */
class MalformedCall(val text: String, val why: String) :
    EdgecException(
        "The model wrote a call that is none: $why. Allow more tokens where the text ran out; else ask again, or " +
            "handle the error's text.",
    )

class ThinkingRefused(why: String) :
    EdgecException("The model's reasoning cannot be held to a budget: $why. Leave the budget out.")

class MessageRefused(why: String) :
    EdgecException("The model's chat template takes no such conversation: $why. Use other messages, or `chat`.")

/**
 * A call of a tool that the model wrote.
 *
 * @property arguments a JSON object, for the app's own parser.
 */
data class ToolCall(val name: String, val arguments: String)

/** A piece of a reply, in the order in which the model writes them. */
sealed interface ReplyPiece {
    /** What was added to the reasoning. */
    data class Reasoning(val text: String) : ReplyPiece

    /** What was added to the answer. */
    data class Text(val text: String) : ReplyPiece

    /** Calls that became whole; [text] is what the model wrote between the markers. */
    data class Calls(val text: String, val calls: List<ToolCall>) : ReplyPiece
}

/**
 * A whole reply.
 *
 * @property message to be put into the conversation, in front of the results of its [calls].
 */
class Reply internal constructor(
    val reasoning: String,
    val text: String,
    val calls: List<ToolCall>,
    val message: ChatMessage,
)

/**
 * Answer a conversation, with reasoning, answer and calls told apart by the markers of the model's chat template; the
 * whole reply is [EdgecModel.lastReply] at the end.
 *
 * A [thinkingBudget] closes the reasoning after exactly so many tokens, unless the model closes it before; 0 switches it
 * off where the template can, and else closes it at once. With [tools], which is the default where there are any and no
 * [schema] is given, the model sees the tools of this package (`edgec embed --tools`) and calls them as [toolChoice]
 * says, one at most without [parallelCalls]; a call that it opens and does not write is [MalformedCall]. With a [schema]
 * of the bundle the answer after the reasoning is JSON that fulfils it, as in [EdgecModel.generate].
 */
fun EdgecModel.reply(
    messages: List<ChatMessage>,
    options: GenerationOptions = GenerationOptions(),
    thinkingBudget: Int? = null,
    tools: Boolean? = null,
    toolChoice: ToolChoice = ToolChoice.AUTO,
    parallelCalls: Boolean = true,
    schema: ModelSchema? = null,
): Flow<ReplyPiece> {
    checkBudget(thinkingBudget)
    val calls = toolChoice !== ToolChoice.NONE && (tools ?: (schema == null && ReplyFacts.tools.isNotEmpty()))
    if (calls && ReplyFacts.tools.isEmpty()) throw OptionOutOfRange("tools")
    if (calls && schema != null) throw SchemaRefused("the model may call tools; use ToolChoice.NONE")
    if (schema != null && options.stop.isNotEmpty()) throw SchemaRefused("stop texts would cut it")
    if (!calls && toolChoice !== ToolChoice.AUTO && toolChoice !== ToolChoice.NONE) {
        throw ToolChoiceRefused("the model sees no tools")
    }
    return pieces { tokenization ->
        val prompts = if (calls) ReplyFacts.withTools else ReplyFacts.plain
        val all = opened(messages)
        val turns = all.mapIndexed { place, message -> message.inPrompt(all, place) }
        val pieces = prompts[variant(thinkingBudget)]
        if (calls && pieces == null) throw MessageRefused("its conversations with tools are not made of pieces")
        val prompt = encode(turns, pieces, switches(thinkingBudget))
        val end = tokenization.decodeMarked(prompt.takeLast(ReplyFacts.TAIL_TOKENS))
        val message = ReplyInProgress(end, options.stop, if (calls) ReplyFacts.calls else null)
        val text = TextStream(prompt, tokenization::decodeMarked)
        val structure = if (calls) constrainedCalls.structure(toolChoice, parallelCalls) else null
        val answer = when {
            schema != null -> constrainedAnswer(schema, options, room(prompt, options))
            structure != null -> ConstrainedAnswer(room(prompt, options), false) { _, _ -> constrained(structure, Int.MAX_VALUE) }
            else -> null
        }
        val rule = thinkingRule(thinkingBudget, calls, message.phase, tokenization::decodeMarked, answer)
        forEachToken(prompt, options, rule) { token ->
            if (token in TextFacts.stopTokens) return@forEachToken FinishReason.END_OF_TEXT
            message.reader.feed(text.push(token)).forEach { emit(it) }
            FinishReason.STOP_TEXT.takeIf { message.reader.stopped }
        }
        message.reader.close(text.flush()).forEach { emit(it) }
        lastReply = message.whole()
    }
}

/** The place in `ReplyFacts.plain` of the prompt for a budget. */
private fun variant(budget: Int?): Int = if (budget == null) 0 else if (budget > 0) 1 else 2

/** The template's variables for a budget; none leaves them as the template has them. */
private fun switches(budget: Int?): Map<String, Boolean> =
    if (budget == null) mapOf() else ReplyFacts.switches.associateWith { budget > 0 }

private fun checkBudget(budget: Int?) {
    if (budget == null) return
    if (budget < 0) throw OptionOutOfRange("thinkingBudget")
    val notation = ReplyFacts.thinking
    if (notation == null && budget > 0) throw ThinkingRefused("its chat template has none of the markers that edgec knows")
    if (notation != null && notation.closeTokens.isEmpty()) throw ThinkingRefused("no tokens write its markers")
}

/** An answer that is held to a schema, behind the headers that the template gives it. */
private fun EdgecModel.constrainedAnswer(schema: ModelSchema, options: GenerationOptions, tokens: Int): ConstrainedAnswer {
    val heads = ReplyFacts.answerHeads ?: throw SchemaRefused("no tokens write the headers of an answer")
    return ConstrainedAnswer(tokens, true) { left, thought ->
        val head = if (thought) heads.afterThought else heads.first
        val text = constrained(schema, options, maxOf(left - head.size, 1))
        if (head.isEmpty()) text else HeadedText(head, text)
    }
}

/** None where nothing is prescribed. With calls or a held answer, something has to come after the reasoning. */
private fun thinkingRule(
    budget: Int?,
    calls: Boolean,
    phase: ThinkingPhase,
    decode: (List<Int>) -> String,
    answer: ConstrainedAnswer?,
): ThinkingRule? {
    val notation = ReplyFacts.thinking
    if (answer == null && (notation == null || (budget == null && !calls))) return null
    if (answer != null && notation?.openTokens?.isEmpty() == true) throw ThinkingRefused("no tokens write its markers")
    val awaited = if (calls || answer != null) TextFacts.stopTokens else setOf()
    return ThinkingRule(notation, budget, if (notation == null) ThinkingPhase.ANSWER else phase, awaited, decode, answer)
}

/** A reply that is being written after a prompt with the given end. */
private class ReplyInProgress(end: String, stops: List<String>, calls: CallNotation?) {
    private val trimmed = end.pythonTrimEnd()
    private val notation = ReplyFacts.thinking
    val phase = when {
        notation == null -> ThinkingPhase.ANSWER
        trimmed.endsWith(notation.close) -> ThinkingPhase.ANSWER
        trimmed.endsWith(notation.open.pythonTrimEnd()) -> ThinkingPhase.THINK
        else -> ThinkingPhase.START
    }
    val reader = ReplyReader(stops, notation, calls, ReplyFacts.dropped, phase == ThinkingPhase.THINK) { text ->
        readCalls(calls, ReplyFacts.tools, text)
    }
    private val opening =
        if (phase == ThinkingPhase.THINK) end.substring(end.lastIndexOf(checkNotNull(notation).open.pythonTrimEnd())) else ""

    fun whole(): Reply {
        val answer = ChatMessage(ChatMessage.Role.assistant, reader.shown)
        val behind = reader.raw.drop(reader.thoughtEnd).pythonTrimStart()
        val message = if (reader.calls.isEmpty()) answer else answer.copy(content = behind, written = opening + reader.raw)
        return Reply(reader.reasoning, reader.shown, reader.calls, message)
    }
}

/** The calls between two markers, of [tools] that there are. Throws NotACall. */
internal fun readCalls(notation: CallNotation?, tools: Map<String, Set<String>>, text: String): List<ToolCall> =
    notation!!.body.read(text).map { call ->
        val texts = tools[call.name] ?: throw NotACall("there is no tool ${call.name}")
        ToolCall(call.name, notation.body.typed(call, texts).toString())
    }
