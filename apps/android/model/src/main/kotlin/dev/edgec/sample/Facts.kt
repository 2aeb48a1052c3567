package dev.edgec.sample

/**
 * An object of `facts.json`, a resource of this package: what `edgec embed` read in the bundle.
 *
 * Every field is asked for with its type; one that is absent or of another type ends in [EdgecException].
 */
internal class Facts private constructor(private val fields: Map<String, JsonValue>, private val place: String) {
    val names: Set<String> get() = fields.keys

    fun text(name: String): String = textOrNull(name) ?: fail(name, "text")

    fun textOrNull(name: String): String? = optional(name) { (it as? JsonValue.Text)?.text ?: fail(name, "text") }

    fun whole(name: String): Long = word(value(name), name).toLongOrNull() ?: fail(name, "whole number")

    fun count(name: String): Int = countOrNull(name) ?: fail(name, "whole number of 32 bits")

    fun countOrNull(name: String): Int? = optional(name) { word(it, name).toIntOrNull() ?: fail(name, "whole number of 32 bits") }

    fun number(name: String): Float = word(value(name), name).toFloatOrNull() ?: fail(name, "number")

    fun isTrue(name: String): Boolean = word(value(name), name).toBooleanStrictOrNull() ?: fail(name, "true or false")

    fun part(name: String): Facts = partOrNull(name) ?: fail(name, "object")

    fun partOrNull(name: String): Facts? = optional(name) { part(it, name) }

    fun parts(name: String): List<Facts> = partsOrNull(name).map { it ?: fail(name, "list of objects") }

    /** A list of objects, of which some may be absent. */
    fun partsOrNull(name: String): List<Facts?> = items(name).map { if (it.isNull) null else part(it, name) }

    fun texts(name: String): List<String> = items(name).map { text(it, name) }

    fun wholes(name: String): LongArray = items(name).map { word(it, name).toLongOrNull() ?: fail(name, "whole numbers") }.toLongArray()

    fun counts(name: String): List<Int> = items(name).map { word(it, name).toIntOrNull() ?: fail(name, "whole numbers") }

    /** Ranges of numbers, each a list of its two ends. */
    fun ranges(name: String): List<IntRange> = items(name).map { ends ->
        val (first, last) = (ends as? JsonValue.Items)?.items?.takeIf { it.size == 2 } ?: fail(name, "list of pairs")
        (word(first, name).toIntOrNull() ?: fail(name, "pairs"))..(word(last, name).toIntOrNull() ?: fail(name, "pairs"))
    }

    /** Texts by name. */
    fun table(name: String): Map<String, String> = part(name).let { part -> part.names.associateWith(part::text) }

    /** Numbers by name. */
    fun countTable(name: String): Map<String, Int> = part(name).let { part -> part.names.associateWith(part::count) }

    /** Sets of texts by name. */
    fun textTable(name: String): Map<String, Set<String>> =
        part(name).let { part -> part.names.associateWith { part.texts(it).toSet() } }

    fun fail(name: String, wanted: String): Nothing = throw unusable("$place/$name is no $wanted")

    private val JsonValue.isNull get() = this is JsonValue.Word && text == "null"

    private fun value(name: String) = fields[name] ?: throw unusable("$place/$name is missing")

    private fun <T> optional(name: String, read: (JsonValue) -> T): T? = value(name).let { if (it.isNull) null else read(it) }

    private fun word(value: JsonValue, name: String) = (value as? JsonValue.Word)?.text ?: fail(name, "number")

    private fun text(value: JsonValue, name: String) = (value as? JsonValue.Text)?.text ?: fail(name, "list of texts")

    private fun part(value: JsonValue, name: String) =
        Facts((value as? JsonValue.Fields)?.fields ?: fail(name, "object"), "$place/$name")

    private fun items(name: String) = (value(name) as? JsonValue.Items)?.items ?: fail(name, "list")

    companion object {
        private const val NAME = "dev/edgec/sample/facts.json"
        private const val MOST_BYTES = 64 shl 20

        /** The facts of this package's bundle. */
        val OF_MODEL: Facts by lazy {
            val file = Facts::class.java.classLoader?.getResourceAsStream(NAME) ?: throw unusable("it is missing")
            read(file.use { it.readBytes() })
        }

        /** Reads facts, of which nothing is trusted. */
        fun read(text: ByteArray): Facts {
            if (text.size > MOST_BYTES) throw unusable("it has ${text.size} bytes")
            val whole = try {
                JsonText.parse(text.toString(Charsets.UTF_8))
            } catch (error: NotACall) {
                throw unusable(error.why)
            }
            return Facts((whole as? JsonValue.Fields)?.fields ?: throw unusable("it is no object"), "")
        }

        private fun unusable(why: String) = EdgecException("This package's facts.json cannot be used: $why. Run `edgec embed` again.")
    }
}
