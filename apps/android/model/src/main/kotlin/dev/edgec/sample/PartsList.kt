package dev.edgec.sample

import android.util.JsonReader
import android.util.JsonToken
import java.util.Locale

/** A part of a bundle: a plain file name beside the list. */
internal class Part(val name: String, val bytes: Long, val sha256: String)

/** What `parts.json` of `edgec split` says: the files, one after the other, are the parts, one after the other. */
internal class PartsList(val digest: String, val bytes: Long, val files: List<BundleFile>, val parts: List<Part>) {
    /** The first byte of each part, then the end. */
    val starts: List<Long> = parts.runningFold(0L) { at, part -> at + part.bytes }

    /** Where the manifest ends, or with [signed] whichever ends last of it and the signature. */
    fun openingBytes(signed: Boolean): Long {
        val last = files.indexOfLast { it.path == "manifest.json" || (signed && it.path == SignatureFile.NAME) }
        return files.take(last + 1).sumOf { it.bytes }
    }

    /** Refuses a list without a signature. */
    fun requireSignature() {
        if (files.none { it.path == SignatureFile.NAME }) throw SignatureRefused("E601", "$NAME names no ${SignatureFile.NAME}")
    }

    /** Refuses names that leave the folder or come twice, and sizes that do not add up. */
    private fun check() {
        require(files.first().path == "manifest.json" && files.first().bytes <= MAX_MANIFEST_BYTES, "the manifest is not first")
        val names = files.map { checkedPath(it.path).lowercase(Locale.ROOT) }
        val folders = names.flatMap { name -> name.indices.filter { name[it] == '/' }.map { name.take(it) } }.toSet()
        require(names.toSet().size == names.size, "a file is listed twice")
        require(names.none { it in folders }, "a file is also a folder")
        val own = parts.map { it.name.lowercase(Locale.ROOT) } + NAME
        require(own.toSet().size == own.size, "a part is listed twice")
        for (each in parts) require(PART_NAME.matches(each.name) && each.bytes in 1..MAX_PART_BYTES, "the part ${each.name}")
        require(sum(files.map { it.bytes }) == bytes && sum(parts.map { it.bytes }) == bytes, "the sizes do not add up")
    }

    companion object {
        const val NAME = "parts.json"
        const val MAX_BYTES = 8 shl 20
        const val MAX_MANIFEST_BYTES = 64L shl 20
        private const val VERSION = 1L
        private const val MAX_NAME = 1_000
        private const val MAX_COUNT = 10_000
        private const val MAX_PART_BYTES = 100_000_000L
        private const val MAX_WHOLE = 1L shl 53
        private val PART_NAME = Regex("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
        private val SHA256 = Regex("[0-9a-f]{64}")
        private val HIDDEN = setOf(
            Character.CONTROL, Character.FORMAT, Character.SURROGATE, Character.PRIVATE_USE,
            Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR, Character.SPACE_SEPARATOR,
        ).map { it.toInt() }

        /** Reads a list, of which nothing is trusted. */
        fun parse(text: ByteArray): PartsList = try {
            JsonReader(text.inputStream().reader()).use(::read).also { it.check() }
        } catch (error: DownloadRefused) {
            throw error
        } catch (error: Exception) {
            // JSON that is damaged ends in exceptions of many classes.
            throw DownloadRefused("$NAME cannot be read, ${error.message}")
        }

        private fun read(json: JsonReader): PartsList {
            var files = listOf<BundleFile>()
            var parts = listOf<Part>()
            val texts = HashMap<String, String>()
            val numbers = HashMap<String, Long>()
            json.forEachField { name ->
                when (name) {
                    "files" -> files = json.entries("path") { path, bytes, sha256 -> BundleFile(path, bytes, sha256) }
                    "parts" -> parts = json.entries("name") { part, bytes, sha256 -> Part(part, bytes, sha256) }
                    "format_version", "bytes" -> numbers[name] = json.whole()
                    "name", "digest" -> texts[name] = json.text()
                    else -> throw DownloadRefused("$NAME has a field $name, which this app does not know")
                }
            }
            require(numbers["format_version"] == VERSION, "its version is not $VERSION")
            require(files.isNotEmpty() && parts.isNotEmpty(), "it has no files or no parts")
            require(texts.getValue("name").let { it.codePointCount(0, it.length) } <= MAX_NAME, "its name is too long")
            return PartsList(checkedSha256(texts["digest"]), numbers.getValue("bytes"), files, parts)
        }

        private fun <T> JsonReader.entries(nameField: String, make: (String, Long, String) -> T): List<T> {
            val found = ArrayList<T>()
            beginArray()
            while (hasNext()) {
                require(found.size < MAX_COUNT, "it has too many entries")
                val texts = HashMap<String, String>()
                var bytes = -1L
                forEachField { name ->
                    if (name == "bytes") bytes = whole() else texts[name] = text()
                }
                require(texts.keys == setOf(nameField, "sha256") && bytes >= 0, "an entry has other fields")
                found += make(texts.getValue(nameField), bytes, checkedSha256(texts["sha256"]))
            }
            endArray()
            return found
        }

        private fun JsonReader.forEachField(take: (String) -> Unit) {
            val seen = HashSet<String>()
            beginObject()
            while (hasNext()) {
                val name = nextName()
                require(seen.add(name), "a field comes twice")
                take(name)
            }
            endObject()
        }

        private fun JsonReader.whole(): Long {
            require(peek() == JsonToken.NUMBER, "a number is missing")
            return nextLong().also { require(it in 0..MAX_WHOLE, "a number is out of range") }
        }

        private fun JsonReader.text(): String {
            require(peek() == JsonToken.STRING, "a text is missing")
            return nextString()
        }

        private fun checkedSha256(text: String?): String =
            text.orEmpty().also { require(SHA256.matches(it), "a sha256 is none") }

        /** A path that stays inside its folder on every system. */
        private fun checkedPath(path: String): String = path.also { pathFault(it)?.let { why -> require(false, why) } }

        /** Why a path may leave its folder on some system, or null. */
        fun pathFault(path: String): String? {
            val odd = path.codePoints().anyMatch { it != ' '.code && Character.getType(it) in HIDDEN }
            return when {
                path.isEmpty() || path.codePointCount(0, path.length) > 512 -> "a path is empty or too long"
                path.split('/').any { it.isEmpty() || it == "." || it == ".." } -> "the path $path leaves the folder"
                odd || path.any { it in "\\:*?\"<>|" } -> "the path $path is not portable"
                else -> null
            }
        }

        private fun sum(sizes: List<Long>): Long =
            sizes.fold(0L) { all, size -> (all + size).also { require(it <= MAX_WHOLE, "a number is out of range") } }

        private fun require(holds: Boolean, why: String) {
            if (!holds) throw DownloadRefused("$NAME cannot be used, $why")
        }
    }
}
