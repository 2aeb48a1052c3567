package dev.edgec.sample

/** Reads a message as it is written; markers, and the space around them, belong to none of the parts that they separate. */
internal class ReplyReader(
    stops: List<String>,
    private val thinking: ThinkingNotation?,
    private val notation: CallNotation?,
    frame: List<String>,
    startsThinking: Boolean,
    private val read: (String) -> List<ToolCall>,
) {
    private enum class Kind { TEXT, REASONING, CALL }

    private val stop = StopText(stops)
    private val dropped = (frame + notation?.before.orEmpty()).filter { it.isNotEmpty() }
    private var kind = if (startsThinking) Kind.REASONING else Kind.TEXT
    private var held = ""
    private var space = ""
    private var begun = false
    private val fresh = ArrayList<ReplyPiece>()

    /** The answer so far. */
    var shown = ""
        private set
    var reasoning = ""
        private set

    /** All of the message with its markers. */
    var raw = ""
        private set

    /** Where in [raw] the last reasoning ends, behind its marker. */
    var thoughtEnd = 0
        private set
    var calls = listOf<ToolCall>()
        private set

    /** Whether a stop text has ended the answer. */
    val stopped get() = stop.hit != null

    /** Read more of the message; returns the pieces that became certain. */
    fun feed(text: String): List<ReplyPiece> {
        raw += text
        held += text
        while (!stopped) {
            val marks = marks()
            val (mark, place) = marks.keys.filter { it in held }.map { it to held.indexOf(it) }
                .minWithOrNull(compareBy({ it.second }, { -it.first.length })) ?: break
            if (misplaced(mark, held.take(place))) {
                write(held.take(place + mark.length))
                held = held.drop(place + mark.length)
            } else {
                turn(place, mark, marks.getValue(mark))
            }
        }
        if (kind != Kind.CALL && !stopped) {
            val keep = marks().keys.maxOfOrNull { overlap(held, it) } ?: 0
            write(held.dropLast(keep))
            held = held.takeLast(keep)
        }
        return drained()
    }

    /** Read the last of the message, and what was held back. */
    fun close(last: String): List<ReplyPiece> {
        if (stopped) return drained()
        val pieces = feed(last)
        val rest = held
        held = ""
        if (kind == Kind.CALL) finishCall(rest) else if (!stopped) write(rest)
        if (!stopped) show(stop.flush())
        return pieces + drained()
    }

    /** The pieces that became certain since the last time. */
    fun drained(): List<ReplyPiece> = fresh.toList().also { fresh.clear() }

    /** Each marker that may come now, with the kind of what follows it. */
    private fun marks(): Map<String, Kind> = when (kind) {
        Kind.REASONING -> mapOf(checkNotNull(thinking).close to Kind.TEXT)
        Kind.CALL -> marksInCall(checkNotNull(notation))
        Kind.TEXT -> {
            val opens = thinking?.let { mapOf(it.open to Kind.REASONING) }.orEmpty()
            val called = notation?.takeUnless { it.alone && (shown.isNotEmpty() || calls.isNotEmpty()) }
            dropped.associateWith { Kind.TEXT } + opens + called?.let { mapOf(it.open to Kind.CALL) }.orEmpty()
        }
    }

    private fun marksInCall(notation: CallNotation): Map<String, Kind> = when {
        notation.close.isNotEmpty() -> mapOf(notation.close to Kind.TEXT)
        notation.many -> mapOf(notation.open to Kind.CALL)
        else -> mapOf()
    }

    /** Whether a marker is text: that of a call which must be all of the message, after something else. */
    private fun misplaced(mark: String, before: String): Boolean =
        notation != null && notation.alone && mark == notation.open && before.pythonTrim().isNotEmpty()

    /** Finish what stands before a marker, and begin what follows it. */
    private fun turn(place: Int, mark: String, next: Kind) {
        val before = held.take(place)
        held = held.drop(place + mark.length)
        if (kind == Kind.CALL) finishCall(before) else write(before)
        if (kind == Kind.TEXT && !stopped) show(stop.flush())
        if (kind == Kind.REASONING) thoughtEnd = raw.length - held.length
        space = ""
        begun = false
        kind = next
    }

    private fun finishCall(body: String) {
        val made = try {
            read(body)
        } catch (fault: NotACall) {
            throw MalformedCall(raw, fault.why)
        }
        calls = calls + made
        fresh += ReplyPiece.Calls(body, made)
    }

    /** Take text of the kind that is open; space at its ends is held back until more of it comes. */
    private fun write(text: String) {
        if (kind == Kind.TEXT && thinking == null && notation == null) return show(stop.feed(text))
        val whole = (space + text).let { if (begun) it else it.pythonTrimStart() }
        var body = whole.pythonTrimEnd()
        space = whole.drop(body.length)
        if (body.isEmpty()) return
        val earlier = if (kind == Kind.TEXT) shown else reasoning
        if (!begun && earlier.isNotEmpty()) body = "\n$body"
        begun = true
        if (kind == Kind.TEXT) return show(stop.feed(body))
        reasoning += body
        fresh += ReplyPiece.Reasoning(body)
    }

    private fun show(text: String) {
        if (text.isEmpty()) return
        shown += text
        fresh += ReplyPiece.Text(text)
    }

    private fun overlap(text: String, mark: String): Int =
        (minOf(mark.length - 1, text.length) downTo 1).firstOrNull { text.endsWith(mark.take(it)) } ?: 0
}

/** White space as Python has it, which the notations were tried with. */
internal fun Char.isPythonSpace() = this in "\u0020\u0085\u00A0\u1680\u2028\u2029\u202F\u205F\u3000" ||
    this in '\u0009'..'\u000D' || this in '\u001C'..'\u001F' || this in '\u2000'..'\u200A'

internal fun String.pythonTrimStart() = trimStart { it.isPythonSpace() }

internal fun String.pythonTrimEnd() = trimEnd { it.isPythonSpace() }

internal fun String.pythonTrim() = trim { it.isPythonSpace() }
