package dev.edgec.sample

/** The engine's vision encoder. A handle is valid from [open] to [close], for one call at a time; decoders are those of [NativeEngine]. */
internal object NativeVision {
    /** Open the vision of a [bundle]'s folder with its [artifact]; both are UTF-8. Returns a handle. */
    external fun open(bundle: ByteArray, artifact: ByteArray): Long

    /** The whole text of a prompt, UTF-8 as [asked]; [sizes] are width and height of each image. */
    external fun prompt(handle: Long, asked: ByteArray, sizes: LongArray): ByteArray

    /** Begin a prompt of so many [images]; the one before is forgotten. */
    external fun begin(handle: Long, images: Int)

    /** Add the next image, three bytes for each pixel. */
    external fun add(handle: Long, width: Int, height: Int, rgb: ByteArray)

    /** Let the image encoder read the next tile; returns how many wait after it. */
    external fun step(handle: Long): Long

    /** Let the image encoder read a [tile] as it is, for golden vectors. */
    external fun see(handle: Long, tile: FloatArray)

    /** Put the rows into a [decoder]'s sequence; returns how many of the first [tokens] its cache still holds. */
    external fun place(handle: Long, decoder: Long, tokens: LongArray): Long

    /** How many tokens the next call takes while a prompt is read from [start] to [end]; 0: they see too far. */
    external fun callSize(decoder: Long, start: Long, end: Long): Long

    external fun close(handle: Long)
}
