package dev.edgec.sample

/** Decodes token by token: a few tokens are decoded with and without the new one; the difference is the new text. */
internal class TextStream(prompt: List<Int>, private val decode: (List<Int>) -> String) {
    private var window = prompt
    private var shown = window.size

    init {
        advance()
    }

    /** The text that a token completes; empty while a character is incomplete. */
    fun push(token: Int): String {
        window = window + token
        val text = pending()
        if (text.endsWith('\uFFFD')) return ""
        if (text.isNotEmpty()) advance()
        return text
    }

    /** The text that an incomplete last character decodes to. */
    fun flush(): String = pending().also { advance() }

    /** The new text, by code points, since U+FFFD in place of half a character differs from it in UTF-16 units. */
    private fun pending(): String {
        val before = decode(window.take(shown))
        val text = decode(window)
        val points = minOf(before.codePointCount(0, before.length), text.codePointCount(0, text.length))
        return text.substring(text.offsetByCodePoints(0, points))
    }

    /** Forget all but a few tokens; a window that began inside a character would decode to something else. */
    private fun advance() {
        val whole = decode(window)
        val latest = maxOf(window.size - maxOf(WINDOW, window.size - shown), 0)
        val starts = latest downTo maxOf(latest - WINDOW, 0)
        window = window.drop(starts.firstOrNull { whole.endsWith(decode(window.drop(it))) } ?: latest)
        shown = window.size
    }

    private companion object {
        const val WINDOW = 8
    }
}

/** A filter between the model's text and the reader that never lets any part of a stop text through. */
internal class StopText(private val stops: List<String>) {
    private var held = ""
    var hit: String? = null
        private set

    /** The text that is now safe to show; [hit] is set once a stop text is complete. */
    fun feed(piece: String): String {
        val text = held + piece
        // The first to end wins; of two that end together, the longer one.
        val stop = stops.filter { it in text }.minWithOrNull(compareBy({ text.indexOf(it) + it.length }, { -it.length }))
        if (stop != null) {
            hit = stop
            held = ""
            return text.substring(0, text.indexOf(stop))
        }
        val keep = stops.maxOfOrNull { overlap(text, it) } ?: 0
        held = text.takeLast(keep)
        return text.dropLast(keep)
    }

    /** The text that was held back, once no more will come. */
    fun flush(): String = held.also { held = "" }

    private fun overlap(text: String, stop: String): Int =
        (minOf(stop.length - 1, text.length) downTo 1).firstOrNull { text.endsWith(stop.take(it)) } ?: 0
}
