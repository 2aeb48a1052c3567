package dev.edgec.sample

import java.io.ByteArrayOutputStream
import java.io.Closeable
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.MalformedURLException
import java.net.URL
import java.security.MessageDigest
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.ensureActive

/** What went wrong on the way, and may go right the next time. */
private class Hiccup(why: String) : Exception(why)

/** The file of one part: what has arrived, and its hash so far. */
private class PartFile(private val file: File, private val part: Part) : Closeable {
    private var digest = DownloadFolder.sha256()
    private val out: FileOutputStream
    var bytes = 0L
        private set

    init {
        if (file.length() > part.bytes) file.delete()
        out = DownloadFolder.storing { FileOutputStream(file, true) }
        // What an earlier start of the app left is hashed again.
        DownloadFolder.storing { file.inputStream().use { from -> hash(from) } }
    }

    private fun hash(from: InputStream) = DownloadFolder.pour(Long.MAX_VALUE) { piece, most ->
        from.read(piece, 0, most).also { if (it > 0) count(piece, it) }
    }

    private fun count(piece: ByteArray, count: Int) {
        digest.update(piece, 0, count)
        bytes += count
    }

    fun write(piece: ByteArray, count: Int) {
        DownloadFolder.storing { out.write(piece, 0, count) }
        count(piece, count)
    }

    fun restart() = DownloadFolder.storing {
        out.channel.truncate(0)
        digest.reset()
        bytes = 0
    }

    val missing: Long get() = part.bytes - bytes

    /** Whether a complete part is the listed one; otherwise nothing of it is kept. */
    fun matches(): Boolean {
        if (DownloadFolder.hex(digest.clone() as MessageDigest) == part.sha256) {
            DownloadFolder.storing { out.fd.sync() }
            return true
        }
        restart()
        return false
    }

    override fun close() = out.close()
}

/** Fetches files from beside the list of parts, over connections that may be cut at any byte. */
internal class PartFetch(private val base: String, private val options: DownloadOptions) {
    /** The list's text; it is small, so each try begins anew. */
    suspend fun list(): ByteArray {
        var failures = 0
        while (true) {
            try {
                return connected(PartsList.NAME, 0) { connection -> limited(connection) }
            } catch (error: Hiccup) {
                pause(PartsList.NAME, ++failures, error)
            }
        }
    }

    private fun limited(connection: HttpURLConnection): ByteArray {
        if (connection.responseCode != 200) throw Hiccup("HTTP ${connection.responseCode}")
        val text = ByteArrayOutputStream()
        connection.inputStream.use { from ->
            DownloadFolder.pour(PartsList.MAX_BYTES + 1L) { piece, most ->
                from.read(piece, 0, most).also { if (it > 0) text.write(piece, 0, it) }
            }
        }
        if (text.size() > PartsList.MAX_BYTES) throw DownloadRefused("${PartsList.NAME} is too large")
        return text.toByteArray()
    }

    /** Fetch what [file] lacks of a part; returns once its sha256 is right. [tell] takes the bytes that have arrived. */
    suspend fun part(part: Part, file: File, tell: (Long) -> Unit) {
        PartFile(file, part).use { arrived ->
            var wrong = 0
            while (true) {
                complete(part, arrived, tell)
                if (arrived.matches()) return
                if (++wrong > options.refetches) {
                    throw DownloadRefused("${part.name} came $wrong times with another sha256 than is listed")
                }
            }
        }
    }

    /** Try until all bytes are there; a try that gets further than all before it counts as a success. */
    private suspend fun complete(part: Part, arrived: PartFile, tell: (Long) -> Unit) {
        var furthest = arrived.bytes
        var failures = 0
        while (arrived.missing > 0) {
            try {
                read(part, arrived, tell)
            } catch (error: Hiccup) {
                failures = if (arrived.bytes > furthest) 0 else failures + 1
                furthest = maxOf(furthest, arrived.bytes)
                pause(part.name, failures, error)
            }
        }
    }

    private suspend fun read(part: Part, arrived: PartFile, tell: (Long) -> Unit) {
        val context = currentCoroutineContext()
        connected(part.name, arrived.bytes) { connection ->
            agree(connection, part, arrived)
            connection.inputStream.use { from ->
                DownloadFolder.pour(arrived.missing) { piece, most ->
                    context.ensureActive()
                    from.read(piece, 0, most).also {
                        if (it > 0) arrived.write(piece, it)
                        tell(arrived.bytes)
                    }
                }
            }
        }
        if (arrived.missing > 0) throw Hiccup("the answer ended early")
    }

    /** The answer begins where the file ends, or the file begins anew. */
    private fun agree(connection: HttpURLConnection, part: Part, arrived: PartFile) {
        val code = connection.responseCode
        if (code == HttpURLConnection.HTTP_OK) return if (arrived.bytes > 0) arrived.restart() else Unit
        if (code == RANGE_REFUSED) arrived.restart()
        if (code != HttpURLConnection.HTTP_PARTIAL) throw Hiccup("HTTP $code")
        val range = RANGE.matchEntire(connection.getHeaderField("Content-Range").orEmpty())?.destructured
        val (first, all) = range ?: throw Hiccup("the answer does not say which bytes it holds")
        if (first != arrived.bytes.toString()) throw Hiccup("the answer holds other bytes than were asked for")
        if (all != "*" && all != part.bytes.toString()) throw Hiccup("the server's file has another size")
    }

    /** Opens a connection, follows redirects, and turns what may pass into a [Hiccup]. */
    private inline fun <T> connected(name: String, first: Long, use: (HttpURLConnection) -> T): T {
        var url = address(null, beside(name))
        repeat(MAX_REDIRECTS) {
            val connection = opened(url, first)
            try {
                val code = connection.responseCode
                if (code !in REDIRECTS) {
                    if (code in 400..499 && code !in PASSING) throw DownloadFailed(name, "HTTP $code")
                    return use(connection)
                }
                url = redirected(url, connection.getHeaderField("Location"))
            } catch (error: IOException) {
                throw Hiccup(error.message ?: error.toString())
            } finally {
                connection.disconnect()
            }
        }
        throw DownloadFailed(name, "more than $MAX_REDIRECTS redirects")
    }

    private fun opened(url: URL, first: Long): HttpURLConnection {
        if (!allowed(url)) throw DownloadRefused("$url is not https (http is for this device alone, or with allowHttp)")
        val connection = url.openConnection() as HttpURLConnection
        connection.instanceFollowRedirects = false
        connection.useCaches = false
        connection.connectTimeout = options.timeoutMillis
        connection.readTimeout = options.timeoutMillis
        // Compressed on the way, bytes could not be counted.
        connection.setRequestProperty("Accept-Encoding", "identity")
        if (first > 0) connection.setRequestProperty("Range", "bytes=$first-")
        return connection
    }

    private fun redirected(from: URL, location: String?): URL {
        val to = address(from, location ?: throw Hiccup("a redirect to nowhere"))
        if (to.protocol != "https" && to.protocol != from.protocol) throw DownloadRefused("$from leads to $to")
        return to
    }

    private fun address(from: URL?, text: String): URL = try {
        URL(from, text)
    } catch (error: MalformedURLException) {
        throw DownloadRefused("$text is not an address, ${error.message}")
    }

    private fun allowed(url: URL) =
        url.protocol == "https" || (url.protocol == "http" && (options.allowHttp || LOOPBACK.matches(url.host)))

    /** A file beside the list; a query, such as a signature of the address, stays. */
    private fun beside(name: String): String {
        val path = base.substringBefore('?').removeSuffix("/${PartsList.NAME}").removeSuffix("/")
        val query = base.substringAfter('?', "")
        return "$path/$name${if (query.isEmpty()) "" else "?$query"}"
    }

    private suspend fun pause(name: String, failures: Int, error: Exception) {
        if (failures >= options.attempts) throw DownloadFailed(name, "${error.message}, $failures times in a row")
        delay(minOf(options.retryDelayMillis shl minOf(failures, MAX_DOUBLINGS), MAX_DELAY_MILLIS))
    }

    private companion object {
        const val RANGE_REFUSED = 416
        const val MAX_REDIRECTS = 5
        const val MAX_DOUBLINGS = 10
        const val MAX_DELAY_MILLIS = 30_000L
        val REDIRECTS = setOf(301, 302, 303, 307, 308)
        val PASSING = setOf(408, RANGE_REFUSED, 425, 429)
        val RANGE = Regex("bytes (\\d{1,18})-\\d{1,18}/(\\d{1,18}|\\*)")
        val LOOPBACK = Regex("localhost|127(\\.\\d{1,3}){3}|\\[?::1]?")
    }
}
