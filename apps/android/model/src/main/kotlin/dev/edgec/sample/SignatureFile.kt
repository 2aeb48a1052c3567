package dev.edgec.sample

import android.util.JsonReader
import android.util.JsonToken
import java.io.File
import java.util.Base64

/**
 * What the holder of the app's key signed: the sha256 of every file by its path; [sha256] is that of the list itself.
 *
 * @property fault why the list contradicts itself; differing files are named before that.
 */
internal class SignedFiles(val files: Map<String, String>, val sha256: String, val fault: SignatureRefused?)

/**
 * Reads the signature of a bundle under limits, as `edgec verify` does: OpenSSF model signing 1.0, whole files, sha256.
 *
 * What is signed is parsed only once the signature over it holds.
 */
internal object SignatureFile {
    const val NAME = "model.sig"
    private const val MAX_BYTES = 16L shl 20
    private const val MAX_DEPTH = 200
    private const val MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
    private const val PAYLOAD_TYPE = "application/vnd.in-toto+json"
    private val SHA256 = Regex("[0-9a-f]{64}")

    fun read(folder: File): SignedFiles {
        val file = parse(bytes(File(folder, NAME)))
        file.only("mediaType", MEDIA_TYPE)
        val key = file.field("verificationMaterial").field("publicKey").sha256("hint")
        val envelope = file.field("dsseEnvelope")
        envelope.only("payloadType", PAYLOAD_TYPE)
        val payload = envelope.base64("payload")
        val signature = envelope.one("signatures").base64("sig")
        if (key != PinnedKey.SHA256) {
            foreign("it names the key ${key.take(16)}…, this app has ${PinnedKey.SHA256.take(16)}… (sha256)")
        }
        val opening = "DSSEv1 ${PAYLOAD_TYPE.length} $PAYLOAD_TYPE ${payload.size} ".toByteArray()
        if (!PinnedKey.hasSigned(listOf(opening, payload), signature)) {
            foreign("the signature does not fit what is signed and the key")
        }
        val statement = parse(payload)
        val files = files(statement)
        return SignedFiles(files, DownloadFolder.hex(DownloadFolder.sha256().apply { update(payload) }), fault(statement, files))
    }

    private fun files(statement: Any?): Map<String, String> {
        statement.only("_type", "https://in-toto.io/Statement/v1")
        statement.only("predicateType", "https://model_signing/signature/v1.0")
        val predicate = statement.field("predicate")
        predicate.field("serialization").only("method", "files")
        predicate.field("serialization").only("hash_type", "sha256")
        val found = LinkedHashMap<String, String>()
        for (resource in predicate.list("resources")) {
            resource.only("algorithm", "sha256")
            val name = resource.text("name")
            PartsList.pathFault(name)?.let { unusable(it) }
            val digest = resource.sha256("digest")
            if (found.put(name, digest) != null) unusable("it names a file twice")
        }
        return found
    }

    private fun fault(statement: Any?, files: Map<String, String>): SignatureRefused? = try {
        val all = DownloadFolder.sha256()
        for (digest in files.values) {
            all.update(ByteArray(digest.length / 2) { digest.substring(2 * it, 2 * it + 2).toInt(16).toByte() })
        }
        val whole = statement.one("subject").field("digest").sha256("sha256")
        if (whole != DownloadFolder.hex(all)) unusable("its digest over all files is inconsistent with theirs")
        null
    } catch (error: SignatureRefused) {
        error
    }

    private fun bytes(file: File): ByteArray {
        if (!file.exists()) throw SignatureRefused("E601", "there is no $NAME in it")
        if (!file.isFile) unusable("it is not a plain file")
        if (file.length() > MAX_BYTES) unusable("it is larger than $MAX_BYTES bytes")
        return try {
            file.readBytes()
        } catch (error: java.io.IOException) {
            unusable("it cannot be read, ${error.message}")
        }
    }

    /** Objects as maps, arrays as lists, texts; whatever else there is in JSON becomes null. */
    private fun parse(raw: ByteArray): Any? = try {
        checkNesting(raw)
        JsonReader(raw.decodeToString(throwOnInvalidSequence = true).reader()).use { json ->
            value(json).also { if (json.peek() != JsonToken.END_DOCUMENT) unusable("something follows its end") }
        }
    } catch (error: SignatureRefused) {
        throw error
    } catch (error: Exception) {
        // JSON that is damaged ends in exceptions of many classes.
        unusable("it is not JSON, ${error.message?.take(80)}")
    }

    /** Refuses nesting that could exhaust a stack, and what parsers differ about; brackets inside texts do not count. */
    private fun checkNesting(raw: ByteArray) {
        var depth = 0
        var isText = false
        var isEscaped = false
        for (byte in raw) {
            when {
                isEscaped -> isEscaped = false
                isText -> {
                    if (byte in 0..31) unusable("a text holds a control character")
                    isEscaped = byte == '\\'.code.toByte()
                    isText = byte != '"'.code.toByte()
                }
                else -> when (byte.toInt().toChar()) {
                    '"' -> isText = true
                    '[', '{' -> depth += 1
                    ']', '}' -> depth -= 1
                }
            }
            if (depth > MAX_DEPTH) unusable("it is nested too deeply")
        }
    }

    private fun value(json: JsonReader): Any? = when (json.peek()) {
        JsonToken.BEGIN_OBJECT -> HashMap<String, Any?>().also { found ->
            json.beginObject()
            while (json.hasNext()) found[json.nextName()] = value(json)
            json.endObject()
        }
        JsonToken.BEGIN_ARRAY -> ArrayList<Any?>().also { found ->
            json.beginArray()
            while (json.hasNext()) found += value(json)
            json.endArray()
        }
        JsonToken.STRING -> json.nextString()
        else -> null.also { json.skipValue() }
    }

    private fun Any?.field(name: String): Any = (this as? Map<*, *>)?.get(name) ?: unusable("$name is missing")

    private fun Any?.text(name: String): String = field(name) as? String ?: unusable("$name is not a text")

    private fun Any?.list(name: String): List<*> = field(name) as? List<*> ?: unusable("$name is not a list")

    private fun Any?.one(name: String): Any? = list(name).let { found ->
        if (found.size == 1) found[0] else unusable("$name has ${found.size} entries instead of 1")
    }

    private fun Any?.only(name: String, known: String) {
        if (text(name) != known) unusable("$name is not $known")
    }

    private fun Any?.sha256(name: String): String =
        text(name).also { if (!SHA256.matches(it)) unusable("$name is not a sha256") }

    /** Bytes from base64 without gaps and with its padding, which Java's decoder does not ask for. */
    private fun Any?.base64(name: String): ByteArray = try {
        val text = text(name)
        if (text.length % 4 != 0) unusable("$name is not base64")
        Base64.getDecoder().decode(text)
    } catch (error: IllegalArgumentException) {
        unusable("$name is not base64")
    }

    private fun foreign(why: String): Nothing = throw SignatureRefused("E603", why)

    private fun unusable(why: String): Nothing = throw SignatureRefused("E602", "$NAME cannot be used, $why")
}
