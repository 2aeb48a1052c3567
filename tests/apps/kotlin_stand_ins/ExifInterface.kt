package android.media

import java.io.InputStream

/** Android's, for the orientation alone: an entry 0x0112 of one short, in either order of bytes. */
class ExifInterface(stream: InputStream) {
    private val bytes = stream.readBytes()

    fun getAttributeInt(name: String, default: Int): Int {
        check(name == TAG_ORIENTATION)
        for (at in 0..bytes.size - 12) {
            if (matches(at, 0x01, 0x12, 0x00, 0x03, 0x00, 0x00, 0x00, 0x01)) return bytes[at + 9].toInt()
            if (matches(at, 0x12, 0x01, 0x03, 0x00, 0x01, 0x00, 0x00, 0x00)) return bytes[at + 8].toInt()
        }
        return default
    }

    private fun matches(at: Int, vararg wanted: Int) = wanted.indices.all { bytes[at + it].toInt() == wanted[it] }

    companion object { const val TAG_ORIENTATION = "Orientation" }
}
