package dev.edgec.sample

import android.content.Context
import android.system.ErrnoException
import android.system.Os
import android.system.OsConstants
import android.system.StructStat
import java.io.File

/**
 * A folder that the holder of the app's key signed: refused as `edgec verify --public-key` refuses it, in the same order.
 *
 * Links, then the signature, then every name and every file; only then is the manifest read. Nothing is written into the
 * folder: what was checked is remembered in the app's own, by sizes, times and numbers of the files.
 */
internal class SignedBundle(private val folder: File) {
    private class Entry(val name: String, val status: StructStat) {
        val isFolder get() = OsConstants.S_ISDIR(status.st_mode)
    }

    /** Check everything, and that the bundle fits the app; the first call hashes every file. */
    fun prepare(context: Context, hashAlways: Boolean, tell: (LoadStep) -> Unit): CheckedBundle {
        val entries = entries()
        if (entries.none { it.name == MANIFEST }) throw SignatureRefused("E130", "there is no $MANIFEST")
        refuseLinks(entries)
        val signed = SignatureFile.read(folder)
        val bundle = CheckedBundle(folder, marks(context, signed.sha256), neededBytes(entries), signed.files)
        val stamp = stamp(entries)
        val hashed = Hashed(entries, tell).takeIf { hashAlways || !bundle.isDone("files", stamp) }
        refuseDifferences(entries, signed.files, hashed)
        checkFit(folder, signed)
        bundle.finish("files", stamp)
        return bundle
    }

    private fun entries(): List<Entry> {
        val found = ArrayList<Entry>()
        val pending = ArrayDeque(listOf(""))
        while (pending.isNotEmpty()) {
            val inside = pending.removeFirst()
            for (name in File(folder, inside).list() ?: throw SignatureRefused("E130", "$folder/$inside cannot be read")) {
                val entry = Entry(inside + name, status(inside + name))
                found += entry
                if (entry.isFolder) pending += "${entry.name}/"
            }
        }
        return found.sortedBy { it.name }
    }

    private fun status(name: String): StructStat = try {
        Os.lstat(File(folder, name).path)
    } catch (error: ErrnoException) {
        throw SignatureRefused("E130", "'$name' cannot be read, ${error.message}")
    }

    /** Refuse what could change from outside. */
    private fun refuseLinks(entries: List<Entry>) {
        for (entry in entries.filterNot { it.isFolder }) {
            if (OsConstants.S_ISLNK(entry.status.st_mode)) differs("'${entry.name}' is a symbolic link")
            if (!OsConstants.S_ISREG(entry.status.st_mode)) differs("'${entry.name}' is neither a file nor a folder")
            if (entry.status.st_nlink > 1) {
                differs("'${entry.name}' is a hard link: it has another name, through which it can be changed")
            }
        }
    }

    /** Compare names, and where something hashes them also contents, with what was signed. */
    private fun refuseDifferences(entries: List<Entry>, files: Map<String, String>, hashed: Hashed?) {
        val folders = files.keys.flatMap { name -> name.indices.filter { name[it] == '/' }.map { name.take(it) } }.toSet()
        val present = entries.filterNot { it.isFolder }.map { it.name }.toSet()
        val missing = (files.keys - present).sorted().asSequence().map { "'$it' is missing" }
        val others = entries.asSequence().filter { it.name != SignatureFile.NAME || it.isFolder }.mapNotNull { entry ->
            when {
                entry.isFolder -> "'${entry.name}' was added".takeIf { entry.name !in folders }
                entry.name !in files -> "'${entry.name}' was added"
                hashed != null && hashed.sha256(entry.name) != files[entry.name] -> "'${entry.name}' was changed"
                else -> null
            }
        }
        val found = (missing + others).take(NAMED + 1).toList()
        val more = if (found.size > NAMED) listOf("and more") else listOf()
        if (found.isNotEmpty()) differs((found.take(NAMED) + more).joinToString("; "))
    }

    /** Hashes files, and tells how far it is. */
    private inner class Hashed(entries: List<Entry>, private val tell: (LoadStep) -> Unit) {
        private val all = entries.filterNot { it.isFolder || it.name == SignatureFile.NAME }.sumOf { it.status.st_size }
        private var bytes = 0L

        fun sha256(name: String): String = BundleFiles.sha256(File(folder, name)) { count ->
            bytes += count
            tell(LoadStep.Checking(minOf(bytes, all), all))
        }
    }

    private fun stamp(entries: List<Entry>): String = entries.joinToString("\n", "${folder.absolutePath}\n") { entry ->
        with(entry.status) { "${entry.name} $st_size $st_mtime $st_ctime $st_ino" }
    }

    /** The memory that the package's own bundle needs, with the artifact of this one. */
    private fun neededBytes(entries: List<Entry>): Long {
        val own = entries.filter { it.name == ModelFacts.ARTIFACT || it.name.startsWith("${ModelFacts.ARTIFACT}/") }
        val artifact = own.filterNot { it.isFolder }.sumOf { it.status.st_size }
        return ModelFacts.NEEDED_BYTES + ModelFacts.WEIGHT_COPIES * (artifact - ModelFacts.ARTIFACT_BYTES)
    }

    companion object {
        private const val MANIFEST = "manifest.json"
        private const val NAMED = 3

        /** Where the app remembers what it did with a bundle. */
        fun marks(context: Context, name: String) = File(context.noBackupFilesDir, "edgec/signed/$name")

        /** Refuse a signed bundle whose list contradicts itself, whose manifest is not the signed one, or asks for another app. */
        fun checkFit(folder: File, signed: SignedFiles) {
            signed.fault?.let { throw it }
            val file = File(folder, MANIFEST)
            if (!file.isFile) throw SignatureRefused("E130", "there is no $MANIFEST")
            val manifest = file.readBytes()
            val sha256 = DownloadFolder.hex(DownloadFolder.sha256().apply { update(manifest) })
            if (signed.files[MANIFEST] != sha256) differs("'$MANIFEST' was changed")
            BundleFit.check(manifest.decodeToString(), signed.files)
        }

        fun differs(why: String): Nothing = throw SignatureRefused("E604", why)
    }
}
