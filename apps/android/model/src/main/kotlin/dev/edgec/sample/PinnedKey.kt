package dev.edgec.sample

import java.security.GeneralSecurityException
import java.security.KeyFactory
import java.security.Signature
import java.security.spec.X509EncodedKeySpec
import java.util.Base64

private val HASHES = mapOf("P-256" to 256, "P-384" to 384, "P-521" to 512)

/** The key of whoever signs this app's bundles, from `edgec embed --public-key`; without one the app loads its own alone. */
internal object PinnedKey {
    private val facts = Facts.OF_MODEL.part("key")
    /** What a signature names its key by: the sha256 of the key's PEM text. */
    val SHA256 = facts.text("sha256")
    private val DER = facts.text("der")
    private val ALGORITHM = "SHA" + facts.text("curve").let { HASHES[it] ?: facts.fail("curve", "curve that this app knows") } + "withECDSA"

    val isPinned get() = SHA256.isNotEmpty()

    /** Whether a signature over [content], piece after piece, is by this key. */
    fun hasSigned(content: List<ByteArray>, signature: ByteArray): Boolean = try {
        val key = KeyFactory.getInstance("EC").generatePublic(X509EncodedKeySpec(Base64.getDecoder().decode(DER)))
        val check = Signature.getInstance(ALGORITHM)
        check.initVerify(key)
        content.forEach { check.update(it) }
        check.verify(signature)
    } catch (error: GeneralSecurityException) {
        false // also a signature of another form
    }
}
