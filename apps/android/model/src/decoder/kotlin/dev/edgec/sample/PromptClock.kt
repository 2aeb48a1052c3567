package dev.edgec.sample

import java.time.LocalDateTime
import java.time.format.TextStyle
import java.time.temporal.ChronoUnit
import java.util.Locale

/** The time at which a prompt is written, for templates that say the date. */
internal class PromptClock(private val time: LocalDateTime) {
    /** A text with its dates in place of the formats between marks. */
    fun fill(text: String): String =
        if (BEGIN !in text) text else MARKED.replace(text) { format(it.groupValues[1]) }

    /** The time in a format of C's strftime, in English. */
    fun format(form: String): String = DIRECTIVE.replace(form) { found ->
        val (short, name) = found.destructured
        val text = directive(name[0])
        if (short.isEmpty()) text else text.trimStart('0').ifEmpty { "0" }
    }

    private fun directive(name: Char): String = when (name) {
        'a' -> time.dayOfWeek.getDisplayName(TextStyle.SHORT, Locale.ENGLISH)
        'A' -> time.dayOfWeek.getDisplayName(TextStyle.FULL, Locale.ENGLISH)
        'b' -> SHORT_MONTHS[time.monthValue - 1]
        'B' -> time.month.getDisplayName(TextStyle.FULL, Locale.ENGLISH)
        'd' -> digits(time.dayOfMonth, 2)
        'e' -> time.dayOfMonth.toString().padStart(2)
        'H' -> digits(time.hour, 2)
        'I' -> digits((time.hour + 11) % 12 + 1, 2)
        'j' -> digits(time.dayOfYear, 3)
        'm' -> digits(time.monthValue, 2)
        'M' -> digits(time.minute, 2)
        'p' -> if (time.hour < 12) "AM" else "PM"
        'S' -> digits(time.second, 2)
        'y' -> digits(time.year % 100, 2)
        'Y' -> time.year.toString()
        else -> "%"
    }

    private fun digits(number: Int, width: Int) = number.toString().padStart(width, '0')

    companion object {
        private const val BEGIN = '\uE013'
        private val MARKED = Regex("\uE013([^\uE014]*)\uE014")
        private val DIRECTIVE = Regex("%(-?)([aAbBdeHIjmMpSyY%])")
        // Newer Java writes Sept.
        private val SHORT_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(' ')

        /** The day of the golden vectors of templates that say the date. */
        val GOLDEN = PromptClock(LocalDateTime.of(2026, 1, 5, 7, 8, 9))

        fun now() = PromptClock(LocalDateTime.now().truncatedTo(ChronoUnit.SECONDS))
    }
}
