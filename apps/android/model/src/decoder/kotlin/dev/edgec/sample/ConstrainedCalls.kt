package dev.edgec.sample

import android.content.res.AssetManager
import java.io.File
import java.io.IOException

class ToolChoiceRefused(why: String) :
    EdgecException(
        "The model's calls cannot be held to this choice of tools: $why. Use ToolChoice.AUTO with parallel calls, or a " +
            "package with tools for edgec's engine (`edgec embed --tools`).",
    )

/** What a reply may or must call of the package's tools. */
class ToolChoice private constructor(internal val key: String) {
    override fun toString() = key

    companion object {
        /** The model decides. */
        val AUTO = ToolChoice("auto")

        /** Nothing: the model does not see the tools. */
        val NONE = ToolChoice("none")

        /** At least one. */
        val REQUIRED = ToolChoice("required")

        /** The tool of this name. */
        fun tool(name: String) = ToolChoice("tool $name")
    }
}

/** The structures that edgec's engine holds calls to: among the assets, and on the disk for the engine to read. */
internal class ConstrainedCalls(private val assets: AssetManager, private val folder: File) {
    private val checked = HashSet<String>()

    /** The structure of messages for a [choice], with [parallel] calls or one at most; null where calls are held to nothing. */
    @Synchronized
    fun structure(choice: ToolChoice, parallel: Boolean): ConstrainedStructure? {
        val grammar = ReplyFacts.constrainedChoices[(if (parallel) "" else "once ") + choice.key]
        if (grammar != null) return ConstrainedStructure(file(grammar), file(VOCABULARY)) { ToolChoiceRefused(it) }
        if (ReplyFacts.constrainedChoices.isNotEmpty()) throw ToolChoiceRefused("there is none such: $choice")
        if (choice !== ToolChoice.AUTO || !parallel) {
            throw ToolChoiceRefused("only edgec's engine does that, and this artifact has another runtime")
        }
        return null
    }

    /** A file on the disk with the content that it had when this package was written. */
    private fun file(name: String): File {
        val file = File(folder, name)
        if (name !in checked && !isIntact(file)) {
            copy(file)
            if (!isIntact(file)) throw BundleAltered("$ASSETS/$name", "its sha256 differs")
        }
        checked += name
        return file
    }

    private fun isIntact(file: File) =
        file.isFile && BundleFiles.sha256(file) {} == ReplyFacts.storedFiles.getValue(file.name)

    private fun copy(file: File) = try {
        folder.mkdirs()
        assets.open("$ASSETS/${file.name}").use { from -> file.outputStream().use { from.copyTo(it) } }
    } catch (error: IOException) {
        throw StorageFailed("$ASSETS/${file.name}: ${error.message ?: error}")
    }

    private companion object {
        val ASSETS = Facts.OF_MODEL.part("decoder").text("callsFolder")
        const val VOCABULARY = "vocabulary.bin"
    }
}

/** A text that must begin with some tokens, whatever comes after them. */
internal class HeadedText(private var head: List<Int>, private val inner: ConstrainedText) : ConstrainedText {
    override val progress get() = if (head.isEmpty()) inner.progress else TextProgress.OPEN

    override fun mask(logits: FloatArray) = if (head.isEmpty()) inner.mask(logits) else leaveOnly(head.first(), logits)

    override fun take(token: Int) {
        if (head.isEmpty()) inner.take(token) else head = head.drop(1)
    }

    override fun close() = inner.close()
}

/** Set all [logits] but one to -infinity. */
internal fun leaveOnly(token: Int, logits: FloatArray) {
    logits.fill(Float.NEGATIVE_INFINITY)
    logits[token] = 0f
}
