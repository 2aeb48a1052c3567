package dev.edgec.sample

/** A step that cuts a text into the words that the tokenizer's model sees. */
internal fun interface Splitter {
    fun split(piece: Piece): List<Piece>
}

/** What to do with the parts that match. */
internal enum class Matches { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS }

internal class Split(
    private val pattern: TextPattern,
    private val matches: Matches,
    private val inverted: Boolean,
) : Splitter {
    override fun split(piece: Piece): List<Piece> {
        val spans = pattern.spans(piece.text).map { if (inverted) Span(it.start, it.end, !it.matches) else it }
        return parts(spans).filter { it.start < it.end }
            .map { Piece(piece.text.substring(it.start, it.end), piece.atStart && it.start == 0) }
    }

    private fun parts(spans: List<Span>): List<Span> = when (matches) {
        Matches.REMOVED -> spans.filter { !it.matches }
        Matches.ISOLATED -> spans
        Matches.CONTIGUOUS -> joined(spans) { before, span -> before == span.matches }
        Matches.MERGED_WITH_PREVIOUS -> joined(spans) { before, span -> span.matches && !before }
        Matches.MERGED_WITH_NEXT -> joined(spans.asReversed()) { before, span -> span.matches && !before }.asReversed()
    }

    /** The spans, in order or in reverse order, each joined with the one before it where [joins] says so. */
    private fun joined(spans: List<Span>, joins: (Boolean, Span) -> Boolean): List<Span> {
        val merged = ArrayList<Span>()
        var before = false
        for (span in spans) {
            val last = merged.lastOrNull()
            if (last != null && joins(before, span)) {
                merged[merged.lastIndex] = Span(minOf(last.start, span.start), maxOf(last.end, span.end), false)
            } else {
                merged += span
            }
            before = span.matches
        }
        return merged
    }
}

/** SentencePiece's treatment of spaces: each becomes a visible character, and one may be put before the text. */
internal class Metaspace(private val space: String, private val prepend: Prepended, private val splits: Boolean) : Splitter {
    enum class Prepended { ALWAYS, FIRST, NEVER }

    override fun split(piece: Piece): List<Piece> {
        var text = piece.text.replace(" ", space)
        val wanted = prepend == Prepended.ALWAYS || (prepend == Prepended.FIRST && piece.atStart)
        if (wanted && !text.startsWith(space)) text = space + text
        if (!splits) return listOf(Piece(text, piece.atStart))
        val starts = text.indices.filter { it == 0 || text.startsWith(space, it) } + text.length
        return starts.zipWithNext { start, end -> Piece(text.substring(start, end), piece.atStart && start == 0) }
    }
}

/** Puts a space before each part that does not begin with one. */
internal class LeadingSpace : Splitter {
    override fun split(piece: Piece): List<Piece> =
        listOf(if (piece.text.startsWith(' ')) piece else Piece(" " + piece.text, piece.atStart))
}

/** Applies a normalizer to the parts instead of the whole text. */
internal class OnEachPart(private val step: Normalizer) : Splitter {
    override fun split(piece: Piece): List<Piece> = listOf(Piece(step.normalize(piece.text), piece.atStart))
}
