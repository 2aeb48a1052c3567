package dev.edgec.sample

import java.io.File
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.flow.conflate
import kotlinx.coroutines.withContext

/**
 * How a bundle is downloaded.
 *
 * @property allowHttp http is allowed to other devices, too; what arrives is checked either way, who else reads it is not.
 * @property attempts how often a file may fail in a row without one new byte.
 * @property refetches how often a part whose sha256 is wrong is fetched again.
 * @property timeoutMillis the longest wait for a connection, and for the next bytes.
 * @property retryDelayMillis the wait after a failure, doubled with each one in a row, up to 30 s.
 */
data class DownloadOptions(
    val allowHttp: Boolean = false,
    val attempts: Int = 8,
    val refetches: Int = 3,
    val timeoutMillis: Int = 30_000,
    val retryDelayMillis: Long = 500,
)

/** How far a download is, in bytes of the bundle; what an earlier call left counts. */
data class DownloadProgress(val bytes: Long, val of: Long)

/**
 * Downloads a bundle that `edgec split` cut into parts; load it with `LoadOptions(bundle = folder)`.
 *
 * Nothing whose sha256 is wrong gets into the folder, and the folder appears when it is complete. A download that is cut,
 * cancelled or ended with the app goes on where it was with the next call. The disk holds the bundle and one part at most.
 *
 * @param url the folder of parts, or its `parts.json`; https, or http to this device.
 * @param folder the folder that the bundle becomes, for instance `File(context.noBackupFilesDir, ModelFacts.DIGEST)`.
 * @param digest the manifest's that the bundle must have; null takes whatever the server calls a bundle. With a pinned key
 *   (`edgec embed --public-key`) and this package's digest, any bundle is taken that the key's holder signed and that fits.
 */
class BundleDownload(
    url: String,
    private val folder: File,
    private val digest: String? = ModelFacts.DIGEST,
    private val options: DownloadOptions = DownloadOptions(),
) {
    private val fetch = PartFetch(url, options)

    /** Download; each element is the progress, and the flow ends with the folder in its place. */
    fun progress(): Flow<DownloadProgress> = channelFlow<DownloadProgress> { download { trySend(it) } }.conflate()

    /**
     * Download what is missing, and give the folder.
     *
     * A cancelled call ends with the next bytes, after `timeoutMillis` at the latest.
     */
    suspend fun download(tell: (DownloadProgress) -> Unit = {}): File = withContext(Dispatchers.IO) {
        if (folder.exists()) checkExisting() else DownloadFolder(folder).use { fill(it, tell) }
        folder
    }

    /** A folder has its name only once it is complete, so its manifest says which bundle it is. */
    private fun checkExisting() {
        val manifest = File(folder, "manifest.json")
        if (!manifest.isFile) throw DownloadRefused("$folder exists and is not a bundle")
        if (digest == null || digest in manifest.readText()) return
        if (!takesSigned) throw DownloadRefused("$folder holds another bundle")
        SignedBundle.checkFit(folder, SignatureFile.read(folder))
    }

    /** Whether another bundle than the package's will do, if the holder of the app's key signed it. */
    private val takesSigned get() = PinnedKey.isPinned && digest == ModelFacts.DIGEST

    private suspend fun fill(place: DownloadFolder, tell: (DownloadProgress) -> Unit) {
        val text = fetch.list()
        val list = PartsList.parse(text)
        val isOther = digest != null && list.digest != digest
        if (isOther && !takesSigned) throw DownloadRefused("its digest is ${list.digest}, not $digest")
        if (isOther) list.requireSignature()
        place.open(text, list)
        place.checkSpace()
        var isChecked = false
        while (place.taken < list.parts.size) {
            fetch.part(list.parts[place.taken], place.part()) { tell(DownloadProgress(place.takenBytes + it, list.bytes)) }
            place.take()
            // Manifest and signature come first, so that a wrong bundle does not come whole.
            if (!isChecked && place.hasOpening(isOther)) place.checkOpening(isOther).also { isChecked = true }
        }
        if (!isChecked) place.checkOpening(isOther)
        finish(place)
        tell(DownloadProgress(list.bytes, list.bytes))
    }

    private suspend fun finish(place: DownloadFolder) {
        val context = currentCoroutineContext()
        place.checkFiles { context.ensureActive() }
        place.finish()
    }
}
