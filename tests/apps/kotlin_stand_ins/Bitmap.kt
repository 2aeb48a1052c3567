@file:Suppress("UNUSED_PARAMETER", "unused")
package android.graphics

import java.awt.image.BufferedImage
import java.io.InputStream
import javax.imageio.ImageIO

/** Android's, over Java's own images. */
class Bitmap(private val image: BufferedImage, val config: Config? = Config.ARGB_8888) {
    enum class Config { ARGB_8888, RGB_565, HARDWARE }

    val width: Int get() = image.width
    val height: Int get() = image.height

    fun copy(config: Config, mutable: Boolean): Bitmap? = Bitmap(image, config)

    fun getPixels(pixels: IntArray, offset: Int, stride: Int, x: Int, y: Int, width: Int, height: Int) {
        check(config != Config.HARDWARE) { "the pixels of hardware bitmaps are out of reach" }
        image.getRGB(x, y, width, height, pixels, offset, stride)
    }

    fun recycle() = Unit
}

object BitmapFactory {
    class Options {
        @JvmField var inJustDecodeBounds = false
        @JvmField var inPreferredConfig: Bitmap.Config? = Bitmap.Config.ARGB_8888
        @JvmField var inPremultiplied = true
        @JvmField var inScaled = true
        @JvmField var outWidth = 0
        @JvmField var outHeight = 0
    }

    /** How many images were decoded. */
    var decoded = 0

    @JvmStatic
    fun decodeStream(stream: InputStream, padding: Any?, options: Options): Bitmap? {
        val input = ImageIO.createImageInputStream(stream)
        val reader = ImageIO.getImageReaders(input).asSequence().firstOrNull()
        options.outWidth = -1
        options.outHeight = -1
        if (reader == null) return null
        reader.input = input
        options.outWidth = reader.getWidth(0)
        options.outHeight = reader.getHeight(0)
        if (options.inJustDecodeBounds) return null
        decoded += 1
        return try {
            Bitmap(reader.read(0))
        } catch (damaged: java.io.IOException) {
            null
        }
    }
}
