package dev.edgec.sample

import android.content.Context
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream
import java.security.MessageDigest

/** A file of the bundle as the manifest lists it. */
internal class BundleFile(val path: String, val bytes: Long, val sha256: String)

/** A bundle that was checked; [marks] is the folder that remembers what was done with it. */
internal class CheckedBundle(
    val folder: File,
    private val marks: File,
    val neededBytes: Long = ModelFacts.NEEDED_BYTES,
    private val listed: Map<String, String> = ModelFacts.files.associate { it.path to it.sha256 },
) {
    /** The sha256 of the artifact; empty where it is a folder. */
    val artifactSha256 get() = listed[ModelFacts.ARTIFACT].orEmpty()

    /** Whether a step was finished, and over the same [what]. */
    fun isDone(step: String, what: String = ModelFacts.DIGEST) = mark(step).let { it.exists() && it.readText() == what }

    fun finish(step: String, what: String = ModelFacts.DIGEST) {
        marks.mkdirs()
        mark(step).writeText(what)
    }

    private fun mark(step: String) = File(marks, ".done-$step")
}

/** The bundle on the device: copied from the assets once, since the runtime maps files, and checked. */
internal object BundleFiles {
    /** The bundle, [given] or copied out of the assets; the first call copies and hashes every file. */
    @Synchronized
    fun prepare(context: Context, given: File?, hashAlways: Boolean, tell: (LoadStep) -> Unit): CheckedBundle {
        if (given != null && PinnedKey.isPinned && !isOwn(given)) return SignedBundle(given).prepare(context, hashAlways, tell)
        val folder = given ?: File(context.noBackupFilesDir, "edgec/dev.edgec.sample/${ModelFacts.DIGEST}")
        // A signed folder must stay as it is: a later app may take it by its signature.
        val apart = given != null && PinnedKey.isPinned
        val bundle = CheckedBundle(folder, if (apart) SignedBundle.marks(context, ModelFacts.DIGEST) else folder)
        val stamp = if (apart) folder.absolutePath else ModelFacts.DIGEST
        val all = ModelFacts.files.sumOf { it.bytes }
        if (given == null && !bundle.isDone("files")) copy(context, folder) { tell(LoadStep.Copying(minOf(it, all), all)) }
        checkManifest(folder)
        val hashed = Counter { tell(LoadStep.Checking(it, all)) }
        for (file in ModelFacts.files) check(folder, file, hashAlways || !bundle.isDone("files", stamp), hashed)
        bundle.finish("files", stamp)
        return bundle
    }

    /** Whether a folder has the manifest that the app was made with; no other file is looked at. */
    private fun isOwn(folder: File): Boolean = try {
        checkManifest(folder)
        true
    } catch (error: BundleAltered) {
        false
    } catch (error: IOException) {
        false
    }

    /** Adds up bytes, and tells the sum each time. */
    private class Counter(private val tell: (Long) -> Unit) {
        private var bytes = 0L

        fun add(count: Int) {
            bytes += count
            tell(bytes)
        }
    }

    /** Copies the bundle out of the assets, in place of those of earlier versions of the app. */
    private fun copy(context: Context, folder: File, tell: (Long) -> Unit) {
        for (earlier in folder.parentFile?.listFiles().orEmpty()) if (earlier != folder) earlier.deleteRecursively()
        val copied = Counter(tell)
        for (path in ModelFacts.files.map { it.path } + "manifest.json") try {
            copy(context, path, File(folder, path), copied)
        } catch (error: IOException) {
            throw StorageFailed("$path: ${error.message ?: error}")
        }
    }

    /** A file counts as copied once its bytes are on the disk. */
    private fun copy(context: Context, path: String, target: File, copied: Counter) {
        target.parentFile?.mkdirs()
        context.assets.open("${ModelFacts.ASSETS}/$path").use { from ->
            target.outputStream().use {
                pour(from, it, copied)
                it.fd.sync()
            }
        }
    }

    /** The digest is the sha256 of the manifest's text with the digest itself left empty. */
    private fun checkManifest(folder: File) {
        val manifest = File(folder, "manifest.json")
        if (!manifest.isFile) throw BundleAltered("manifest.json", "it is missing")
        if (manifest.length() > PartsList.MAX_MANIFEST_BYTES) throw BundleAltered("manifest.json", "it is too large")
        val text = manifest.readText().replace(ModelFacts.DIGEST, "")
        val digest = MessageDigest.getInstance("SHA-256")
        digest.update(text.toByteArray())
        if (hex(digest) != ModelFacts.DIGEST) throw BundleAltered("manifest.json", "its digest differs")
    }

    private fun check(folder: File, listed: BundleFile, contents: Boolean, hashed: Counter) {
        val file = File(folder, listed.path)
        if (file.length() != listed.bytes) {
            throw BundleAltered(listed.path, "${file.length()} bytes instead of ${listed.bytes}")
        }
        if (contents && sha256(file, hashed::add) != listed.sha256) throw BundleAltered(listed.path, "its sha256 differs")
    }

    /** The sha256 of a file, read in pieces; [count] gets their sizes. */
    fun sha256(file: File, count: (Int) -> Unit): String {
        val digest = MessageDigest.getInstance("SHA-256")
        file.inputStream().use { from ->
            pour(from) { bytes, size ->
                digest.update(bytes, 0, size)
                count(size)
            }
        }
        return hex(digest)
    }

    private fun pour(from: InputStream, to: OutputStream, copied: Counter) = pour(from) { bytes, count ->
        to.write(bytes, 0, count)
        copied.add(count)
    }

    private fun pour(from: InputStream, take: (ByteArray, Int) -> Unit) {
        val piece = ByteArray(1 shl 20)
        while (true) {
            val count = from.read(piece)
            if (count < 0) return
            take(piece, count)
        }
    }

    private fun hex(digest: MessageDigest) = digest.digest().joinToString("") { "%02x".format(it) }
}
