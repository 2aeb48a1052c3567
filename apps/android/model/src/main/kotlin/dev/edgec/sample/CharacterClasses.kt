package dev.edgec.sample

import java.util.regex.Pattern

/** A part of a text, and whether a pattern matches it. */
internal class Span(val start: Int, val end: Int, val matches: Boolean)

/**
 * Classes of the characters that this tokenizer's patterns tell apart: `START SYMBOL` with the start of each range in
 * hexadecimal.
 *
 * Made when the app was generated, by testing every character with the `tokenizers` library, so that neither the
 * regular expressions of this device nor its version of Unicode can make a difference.
 */
internal class CharacterClasses(table: List<String>) {
    private val ranges = table.joinToString("").split(',').filter { it.isNotEmpty() }
    private val starts = IntArray(ranges.size) { ranges[it].dropLast(1).toInt(16) }
    private val symbols = CharArray(ranges.size) { ranges[it].last() }
    private val common = CharArray(COMMON) { search(it) }

    fun symbol(point: Int): Char = if (point < COMMON) common[point] else search(point)

    private fun search(point: Int): Char {
        val index = starts.binarySearch(point)
        return if (index >= 0) symbols[index] else symbols.getOrElse(-index - 2) { ' ' }
    }

    private companion object {
        const val COMMON = 0x3400
    }
}

/** A regular expression over the symbols of characters instead of the characters themselves. */
internal class TextPattern(private val classes: CharacterClasses, expression: String) {
    private val pattern = Pattern.compile(expression)

    /** The text in parts: those that match, and those between them. */
    fun spans(text: String): List<Span> {
        val places = IntArray(text.codePointCount(0, text.length) + 1)
        val symbols = StringBuilder(places.size)
        var at = 0
        while (at < text.length) {
            places[symbols.length] = at
            symbols.append(classes.symbol(text.codePointAt(at)))
            at += Character.charCount(text.codePointAt(at))
        }
        places[symbols.length] = text.length
        val spans = ArrayList<Span>()
        val matcher = pattern.matcher(symbols)
        var end = 0
        while (matcher.find()) {
            if (matcher.start() > end) spans += Span(places[end], places[matcher.start()], false)
            spans += Span(places[matcher.start()], places[matcher.end()], true)
            end = matcher.end()
        }
        if (end < symbols.length) spans += Span(places[end], text.length, false)
        return spans
    }
}
