package dev.edgec.sample

import android.util.JsonReader
import java.io.Closeable
import java.io.File
import java.io.IOException
import java.io.RandomAccessFile
import java.nio.channels.OverlappingFileLockException
import java.security.MessageDigest

/**
 * A download on its way, in a hidden folder beside the one that it becomes, so that it survives the app.
 *
 *     .NAME.download/
 *         list        the list of parts; another list begins anew
 *         taken       how many parts are in their place
 *         part-N      the part that is arriving
 *         bundle/     parts whose sha256 was right; becomes NAME
 */
internal class DownloadFolder(private val target: File) : Closeable {
    private val work = File(target.absoluteFile.parentFile, ".${target.name}.download")
    private val bundle = File(work, "bundle")
    private val lock: RandomAccessFile
    private lateinit var list: PartsList

    /** How many parts are in their place. */
    var taken = 0
        private set

    init {
        if (!work.isDirectory && !work.mkdirs()) throw StorageFailed("$work cannot be made")
        lock = RandomAccessFile(File(work, "lock"), "rw")
        val held = try {
            lock.channel.tryLock()
        } catch (error: OverlappingFileLockException) {
            null
        }
        if (held == null) {
            lock.close()
            throw DownloadRunning(target)
        }
    }

    /** Go on with what an earlier call left of the same list, or begin anew. */
    fun open(text: ByteArray, list: PartsList) = storing {
        this.list = list
        val kept = File(work, "list")
        if (kept.isFile && kept.readBytes().contentEquals(text)) {
            taken = File(work, "taken").readText().toIntOrNull()?.coerceIn(0, list.parts.size) ?: 0
        } else {
            clear()
            write("taken", "0".toByteArray())
            write("list", text)
        }
        for (old in work.listFiles().orEmpty()) {
            if (old.name.startsWith("part-") && old != part()) old.delete()
        }
    }

    /** The file of the part that is arriving. */
    fun part() = File(work, "part-$taken")

    /** Bytes that are in their place. */
    val takenBytes: Long get() = list.starts[taken]

    /** Refuses to begin what the disk cannot hold: the rest of the bundle and one part. */
    fun checkSpace() {
        val largest = list.parts.drop(taken).maxOfOrNull { it.bytes } ?: 0L
        val needed = list.bytes - takenBytes + largest - part().length()
        val free = work.usableSpace
        if (free < needed) throw NotEnoughSpace(needed, free)
    }

    /** Copy a part, which was checked, to its place; a part counts once its bytes are on the disk. */
    fun take() = storing {
        part().inputStream().use { from ->
            for ((file, at, count) in segments(list.starts[taken], list.starts[taken + 1])) {
                val path = File(bundle, file.path)
                path.parentFile?.mkdirs()
                RandomAccessFile(path, "rw").use { to ->
                    to.seek(at)
                    pour(count) { piece, most -> from.read(piece, 0, most).also { if (it > 0) to.write(piece, 0, it) } }
                    to.fd.sync()
                }
            }
        }
        val done = part()
        write("taken", "${taken + 1}".toByteArray())
        taken += 1
        done.delete()
    }

    /** Where bytes of the whole belong: a file, the place in it, how many. */
    private fun segments(first: Long, end: Long): List<Triple<BundleFile, Long, Long>> {
        var at = 0L
        return list.files.mapNotNull { file ->
            val from = maxOf(first, at)
            val to = minOf(end, at + file.bytes)
            val start = at
            at += file.bytes
            if (from < to) Triple(file, from - start, to - from) else null
        }
    }

    /** Whether the manifest is complete, and with [signed] the signature, so that they can be checked before the rest. */
    fun hasOpening(signed: Boolean) = takenBytes >= list.openingBytes(signed)

    /** The manifest is the one of the digest, and lists what the list of parts does; with [signed] the signature holds. */
    fun checkOpening(signed: Boolean) {
        if (signed) checkSignature()
        checkManifest()
    }

    /** The holder of the app's key signed what the list of parts names, and it fits the app. */
    private fun checkSignature() = try {
        val files = SignatureFile.read(bundle)
        val listed = list.files.filter { it.path != SignatureFile.NAME }.associate { it.path to it.sha256 }
        if (files.files != listed) SignedBundle.differs("${PartsList.NAME} names other files than the signature")
        SignedBundle.checkFit(bundle, files)
    } catch (error: EdgecException) {
        clear()
        throw error
    }

    private fun checkManifest() {
        val text = storing { File(bundle, "manifest.json").readText() }
        if (hex(sha256().apply { update(text.replace(list.digest, "").toByteArray()) }) != list.digest) {
            refuse("the manifest's digest differs")
        }
        val listed = list.files.drop(1).filter { it.path != SignatureFile.NAME }.map { Triple(it.path, it.bytes, it.sha256) }
        val named = try {
            JsonReader(text.reader()).use(::filesOf)
        } catch (error: Exception) {
            refuse("the manifest cannot be read, ${error.message}")
        }
        if (listed.toSet() != named.toSet()) refuse("the manifest lists other files than ${PartsList.NAME}")
    }

    private fun filesOf(json: JsonReader): List<Triple<String, Long, String>> {
        val found = ArrayList<Triple<String, Long, String>>()
        json.beginObject()
        while (json.hasNext()) if (json.nextName() == "files") json.eachFile { found += it } else json.skipValue()
        json.endObject()
        return found
    }

    private fun JsonReader.eachFile(take: (Triple<String, Long, String>) -> Unit) {
        beginArray()
        while (hasNext()) {
            val fields = HashMap<String, String>()
            beginObject()
            while (hasNext()) fields[nextName()] = nextString()
            endObject()
            take(Triple(fields.getValue("path"), fields.getValue("bytes").toLong(), fields.getValue("sha256")))
        }
        endArray()
    }

    /** Hash every file as it lies on the disk; [active] ends it where nobody waits any longer. */
    fun checkFiles(active: () -> Unit) {
        for (file in list.files) {
            val path = File(bundle, file.path)
            val digest = sha256()
            storing {
                path.parentFile?.mkdirs()
                path.createNewFile() // the empty ones, which no part brings
                path.inputStream().use { from ->
                    pour(Long.MAX_VALUE) { piece, most ->
                        active()
                        from.read(piece, 0, most).also { if (it > 0) digest.update(piece, 0, it) }
                    }
                }
            }
            if (path.length() != file.bytes || hex(digest) != file.sha256) refuse("${file.path} is not what is listed")
        }
    }

    /** The bundle gets its name, in one step. */
    fun finish() {
        if (!bundle.renameTo(target)) throw StorageFailed("$bundle cannot be renamed to $target")
        close()
        work.deleteRecursively()
    }

    /** Forget everything that has arrived, and say why. */
    private fun refuse(why: String): Nothing {
        clear()
        throw DownloadRefused(why)
    }

    private fun clear() {
        for (old in work.listFiles().orEmpty()) if (old.name != "lock") old.deleteRecursively()
        bundle.mkdirs()
        taken = 0
    }

    private fun write(name: String, content: ByteArray) {
        val aside = File(work, "$name.new")
        aside.outputStream().use {
            it.write(content)
            it.fd.sync()
        }
        if (!aside.renameTo(File(work, name))) throw IOException("$aside cannot be renamed")
    }

    override fun close() = lock.close()

    companion object {
        fun sha256(): MessageDigest = MessageDigest.getInstance("SHA-256")

        fun hex(digest: MessageDigest) = digest.digest().joinToString("") { "%02x".format(it) }

        /** Moves up to [count] bytes; [move] takes a buffer and the most bytes, and gives how many it moved. */
        fun pour(count: Long, move: (ByteArray, Int) -> Int) {
            val piece = ByteArray(1 shl 16)
            var rest = count
            while (rest > 0) {
                val moved = move(piece, minOf(rest, piece.size.toLong()).toInt())
                if (moved < 0) return
                rest -= moved
            }
        }

        /** What the disk refuses is not tried again. */
        fun <T> storing(write: () -> T): T = try {
            write()
        } catch (error: IOException) {
            throw StorageFailed(error.message ?: error.toString())
        }
    }
}
