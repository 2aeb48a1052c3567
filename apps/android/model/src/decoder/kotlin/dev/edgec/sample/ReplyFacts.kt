package dev.edgec.sample

/** How reasoning is told from the answer; without [closeTokens] no tokens write its markers. */
internal class ThinkingNotation(val open: String, val close: String, val openTokens: List<Int>, val closeTokens: List<Int>) {
    constructor(facts: Facts) : this(facts.text("open"), facts.text("close"), facts.counts("openTokens"), facts.counts("closeTokens"))
}

/** The tokens in front of an answer that is held to a schema, where a message has headers. */
internal class AnswerHeads(val first: List<Int>, val afterThought: List<Int>) {
    constructor(facts: Facts) : this(facts.counts("first"), facts.counts("afterThought"))
}

/** How calls are told from text: each between [open] and [close]; with an empty [close], only the next call ends one. */
internal class CallNotation(
    val open: String,
    val close: String,
    /** A call is all of the message. */
    val alone: Boolean,
    /** Several calls may follow each other, each in its own markers. */
    val many: Boolean,
    /** A special token that may come before [open]. */
    val before: String,
    val body: CallBody,
) {
    constructor(facts: Facts) : this(
        facts.text("open"),
        facts.text("close"),
        facts.isTrue("alone"),
        facts.isTrue("many"),
        facts.text("before"),
        body(facts.part("body")),
    )

    private companion object {
        fun body(facts: Facts): CallBody = when (facts.text("kind")) {
            "json" -> JsonCall(facts.text("opened"))
            "list" -> JsonList()
            "named" -> NamedJson(facts.text("between"), facts.text("skipped"))
            "python" -> PythonCalls()
            "gemma" -> GemmaCall(facts.text("quote"))
            "tagged" -> TaggedCall()
            else -> facts.fail("kind", "notation that this app knows")
        }
    }
}

/** What a chat template writes between the contents of messages, by the kinds of the two that it stands between. */
internal class PromptPieces(
    private val joins: Map<String, String>,
    private val trimmed: Set<String>,
    private val quoted: Boolean,
) {
    constructor(facts: Facts) : this(facts.table("joins"), facts.texts("trimmed").toSet(), facts.isTrue("quoted"))

    /** Renders a conversation up to where the assistant answers. */
    fun render(messages: List<ChatMessage>, clock: PromptClock = PromptClock.now()): String {
        val text = StringBuilder()
        fun join(from: String, to: String, tool: String) = clock.fill(joined(from, to)).replace(TOOL_NAME, tool)
        var last = "start"
        for (message in messages) {
            for (placeholder in message.placeholders()) {
                text.append(join(last, "image", "")).append(placeholder)
                last = "image"
            }
            val content = if (message.kind in trimmed) message.content.pythonTrim() else message.content
            text.append(join(last, message.kind, message.tool))
            text.append(if (message.kind == "tool" && quoted) JsonText.quoted(content).drop(1).dropLast(1) else content)
            last = message.kind
        }
        return text.append(join(last, "answer", "")).toString()
    }

    private fun joined(from: String, to: String): String = joins["$from $to"] ?: throw MessageRefused("$to after $from")

    private companion object {
        const val TOOL_NAME = "\uE012"
    }
}

/** What a message is to the template: one with calls of tools stands in the prompt as the model wrote it. */
internal val ChatMessage.kind get() = if (written != null) "call" else role.name

/** The message as it stands in the prompt at its [place] in a conversation, with its reasoning where the template keeps it. */
internal fun ChatMessage.inPrompt(messages: List<ChatMessage>, place: Int): ChatMessage {
    val old = messages.drop(place + 1).any { it.role == ChatMessage.Role.user }
    val keeps = if (old) ReplyFacts.KEEPS_OLD_THOUGHT else ReplyFacts.KEEPS_THOUGHT
    return if (keeps && written != null) copy(content = written) else this
}

/** The notations of the model's chat template, as edgec found them in it when it wrote this package. */
internal object ReplyFacts {
    private val facts = Facts.OF_MODEL.part("replies")
    val thinking: ThinkingNotation? = facts.partOrNull("thinking")?.let(::ThinkingNotation)
    /** So many tokens of a prompt's end show whether it has opened or closed the reasoning. */
    val TAIL_TOKENS: Int = facts.count("tailTokens")
    val calls: CallNotation? = facts.partOrNull("calls")?.let(::CallNotation)
    /** Null: no tokens write them. */
    val answerHeads: AnswerHeads? = facts.partOrNull("answerHeads")?.let(::AnswerHeads)
    /** Markers around the parts of a message that belong to none of them. */
    val dropped: List<String> = facts.texts("dropped")
    /** Special tokens that are not markers, which the text of a message leaves out. */
    val hidden: List<IntRange> = facts.ranges("hidden")
    /** The tools of this package: each name, with the arguments that are texts by their schema. */
    val tools: Map<String, Set<String>> = facts.textTable("tools")
    /** What calls are held to: the grammar's file for each choice of tools; empty: they are held to nothing. */
    val constrainedChoices: Map<String, String> = facts.table("constrainedChoices")
    /** The sha256 of these files and of the tokens' file. */
    val storedFiles: Map<String, String> = facts.table("storedFiles")
    /** The template's variables that switch reasoning on and off. */
    val switches: List<String> = facts.texts("switches")
    /** Whether the template shows the reasoning before a call, while the results of the message come and after it. */
    val KEEPS_THOUGHT: Boolean = facts.isTrue("keepsThought")
    val KEEPS_OLD_THOUGHT: Boolean = facts.isTrue("keepsOldThought")

    /** The prompt without tools and with them: as the template has it, with reasoning switched on, and off. */
    val plain: List<PromptPieces?> = facts.partsOrNull("plain").map { it?.let(::PromptPieces) }
    val withTools: List<PromptPieces?> = facts.partsOrNull("withTools").map { it?.let(::PromptPieces) }
}
