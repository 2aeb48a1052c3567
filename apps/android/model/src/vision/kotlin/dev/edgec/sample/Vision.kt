package dev.edgec.sample

import java.io.Closeable
import java.io.File
import java.security.MessageDigest

/** The bundle's vision encoder: images become rows, which take the place of a prompt's image tokens. */
internal class Vision(private val runtime: ModelRuntime, artifact: File) : Closeable {
    private var handle = NativeVision.open(checkNotNull(artifact.parentFile).path.toByteArray(), artifact.path.toByteArray())
    /** What the images were whose rows there are, in their order; null: unknown. */
    private var seen: List<String>? = null
    private var placed: List<String>? = null

    /** The text of a prompt as the tokenizer gets it, with the places of its images written out. */
    fun write(text: String, images: List<Pixels>): String = runtime.locked {
        val sizes = LongArray(2 * images.size) { images[it / 2].run { if (it % 2 == 0) width else height }.toLong() }
        String(NativeVision.prompt(handle, text.toByteArray(), sizes), Charsets.UTF_8)
    }

    /** Let the image encoder read the images, unless it has just read the same; [goOn] is called before each tile. */
    fun see(images: List<Pixels>, goOn: () -> Unit) {
        val asked = images.map(::digest)
        if (asked == seen) return
        seen = null
        runtime.locked { NativeVision.begin(handle, images.size) }
        for (image in images) {
            goOn()
            runtime.locked { NativeVision.add(handle, image.width, image.height, image.rgb) }
        }
        do goOn() while (runtime.locked { NativeVision.step(handle) } > 0)
        seen = asked
    }

    /** Let the image encoder read the tile of the bundle's golden vector. */
    fun seeProbe() {
        seen = null
        runtime.locked { NativeVision.see(handle, FloatArray(VisionFacts.GOLDEN_VALUES) { probe(it) }) }
    }

    /** Put the rows into the places of a prompt; returns how many of its first tokens the cache may still hold. */
    fun place(prompt: List<Int>): Int {
        val before = placed
        placed = null
        val kept = runtime.locked { decoder ->
            NativeVision.place(handle, decoder, LongArray(prompt.size) { prompt[it].toLong() })
        }
        placed = seen
        val same = before != null && before == seen && !(VisionFacts.WHOLE_PROMPT && before.isNotEmpty())
        return if (same) prompt.size else kept.toInt()
    }

    override fun close() {
        val last = handle
        handle = 0
        NativeVision.close(last)
    }

    /** Numbers that every language can compute alike: (2654435761 * i + 12345) mod 2^32, in -1..1. */
    private fun probe(index: Int) = ((2654435761L * index + 12345L) % (1L shl 32) / 2147483648.0 - 1).toFloat()

    private fun digest(image: Pixels): String {
        val hash = MessageDigest.getInstance("SHA-256").digest(image.rgb)
        return "${image.width} ${image.height} ${hash.joinToString("")}"
    }
}
