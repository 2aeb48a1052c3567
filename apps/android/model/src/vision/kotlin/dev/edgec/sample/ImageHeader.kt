package dev.edgec.sample

import java.io.DataInputStream
import java.io.EOFException
import java.io.InputStream

/** What a file says that the system's decoder passes over: that it holds several images, or grey of 16 bits. */
internal object ImageHeader {
    private val SEQUENCES = setOf("avis", "msf1", "hevc", "hevx")

    /** Refuse an animated image, and one whose brightness would be guessed; anything else is left to the decoder. */
    fun check(stream: InputStream) {
        val input = DataInputStream(stream.buffered())
        try {
            val start = ByteArray(12).also(input::readFully)
            val text = String(start, Charsets.ISO_8859_1)
            when {
                text.startsWith("GIF8") -> checkGif(input, start[10].toInt())
                text.startsWith("\u0089PNG") -> checkPng(input, start)
                text.startsWith("RIFF") && text.endsWith("WEBP") -> checkWebp(input)
                text.substring(4, 8) == "ftyp" && text.substring(8) in SEQUENCES -> throw ImageAnimated("it is a sequence")
            }
        } catch (end: EOFException) {
            return
        }
    }

    private fun checkGif(input: DataInputStream, flags: Int) {
        skip(input, 1L + colours(flags))
        var frames = 0
        while (true) {
            when (input.readUnsignedByte()) {
                0x21 -> skip(input, 1)
                0x2C -> {
                    frames += 1
                    if (frames > 1) throw ImageAnimated("it has several frames")
                    skip(input, 8)
                    skip(input, 1L + colours(input.readUnsignedByte()))
                }
                else -> return
            }
            while (true) {
                val size = input.readUnsignedByte()
                if (size == 0) break
                skip(input, size.toLong())
            }
        }
    }

    /** Bytes of a table of colours. */
    private fun colours(flags: Int) = if (flags and 0x80 == 0) 0 else 3 shl ((flags and 7) + 1)

    private fun checkPng(input: DataInputStream, start: ByteArray) {
        var size = unsigned(start.copyOfRange(8, 12))
        while (true) {
            val kind = name(input)
            when (kind) {
                "IHDR" -> {
                    val header = ByteArray(13).also(input::readFully)
                    if (header[8].toInt() == 16 && header[9].toInt() == 0) throw ImageUnreadable("it has grey of 16 bits")
                    size -= 13
                }
                "acTL" -> {
                    if (input.readInt() > 1) throw ImageAnimated("it has several frames")
                    size -= 4
                }
                "IDAT", "IEND" -> return
            }
            skip(input, size + 4)
            size = unsigned(ByteArray(4).also(input::readFully))
        }
    }

    private fun checkWebp(input: DataInputStream) {
        var frames = 0
        while (true) {
            if (name(input) == "ANMF") frames += 1
            if (frames > 1) throw ImageAnimated("it has several frames")
            val size = unsigned(ByteArray(4).also(input::readFully).reversedArray())
            skip(input, size + size % 2)
        }
    }

    private fun name(input: DataInputStream) = String(ByteArray(4).also(input::readFully), Charsets.ISO_8859_1)

    private fun unsigned(bytes: ByteArray) = bytes.fold(0L) { number, byte -> number * 256 + (byte.toInt() and 0xFF) }

    private fun skip(input: DataInputStream, bytes: Long) {
        var left = bytes
        while (left > 0) {
            val skipped = input.skip(left)
            // Where nothing can be skipped, a byte still can be read, or the end is told.
            left -= if (skipped > 0) skipped else 1L.also { input.readByte() }
        }
    }
}
