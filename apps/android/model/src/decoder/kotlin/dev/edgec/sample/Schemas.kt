package dev.edgec.sample

import java.io.Closeable
import java.io.File

class SchemaRefused(why: String) :
    EdgecException(
        "The answer cannot be held to the schema: $why. It needs a bundle for edgec's engine that has the schema " +
            "(`edgec export --schema`), and no stop texts.",
    )

/** [text] is what there is of an answer that was to be whole; [finish] says what ended it. */
class AnswerUnfinished(val text: String, val finish: FinishReason) :
    EdgecException("The answer's tokens ran out before its JSON was whole ($finish). Allow more, or shorten the prompt.")

/** A JSON Schema that the bundle ships, which answers can be held to; [Schemas] has those of the app's bundle. */
class ModelSchema internal constructor(val name: String) {
    override fun toString() = name
}

/** How far a text has come that is held to a schema: it lacks something, it is whole, or nothing may follow. */
internal enum class TextProgress { OPEN, WHOLE, ENDED }

/** The files of a compiled structure; [refusal] is the error of one that cannot be used. */
internal class ConstrainedStructure(val grammar: File, val vocabulary: File, val refusal: (String) -> EdgecException) {
    companion object {
        /** A schema of the bundle in [folder]. */
        fun of(schema: ModelSchema, folder: File): ConstrainedStructure {
            val grammar = File(folder, "schemas/${schema.name}.grammar")
            if (!grammar.isFile) throw SchemaRefused("the bundle has no schema ${schema.name}")
            return ConstrainedStructure(grammar, File(folder, "schemas/vocabulary.bin")) { SchemaRefused(it) }
        }
    }
}

/** A runtime that holds texts to structures; only edgec's engine does. */
internal interface SchemaRuntime {
    /** Begin a text of at most [budget] tokens that is held to a [structure]. */
    fun holdTo(structure: ConstrainedStructure, budget: Int): ConstrainedText

    companion object {
        fun of(runtime: Closeable): SchemaRuntime = runtime as? SchemaRuntime
            ?: throw SchemaRefused("only edgec's engine does that, and this artifact has another runtime")
    }
}

/** A text whose next tokens are held to something, such as a schema. */
internal interface ConstrainedText : Closeable {
    /** Set the [logits] of all tokens that may not come next to -infinity. */
    fun mask(logits: FloatArray)

    /** Move on by a [token] that the mask leaves. */
    fun take(token: Int)

    val progress: TextProgress
}
