package dev.edgec.sample

import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.media.ExifInterface
import java.io.IOException
import java.io.InputStream

/** Turns images into upright pixels, by the system's decoder; what is too large is refused before it is decoded. */
internal object ImageReader {
    fun pixels(image: ModelImage): Pixels = when (image) {
        is Pixels -> image.also { checkSize(it.width, it.height) }
        is BitmapImage -> given(image.bitmap)
        is EncodedImage -> decoded(image)
    }

    private fun checkSize(width: Int, height: Int) {
        val pixels = width.toLong() * height
        if (pixels > ImageLimits.MOST_PIXELS) {
            throw ImageTooLarge("it has $width x $height pixels, and the most are ${ImageLimits.MOST_PIXELS}")
        }
        if (maxOf(width, height).toLong() > minOf(width, height).toLong() * ImageLimits.MOST_RATIO) {
            throw ImageTooLarge("it has $width x $height pixels: one side is over ${ImageLimits.MOST_RATIO} times the other")
        }
    }

    private fun given(bitmap: Bitmap): Pixels {
        checkSize(bitmap.width, bitmap.height)
        if (bitmap.config == Bitmap.Config.ARGB_8888) return colours(bitmap)
        // The pixels of others, such as those in the graphics processor's memory, may be out of reach.
        val copy = bitmap.copy(Bitmap.Config.ARGB_8888, false) ?: throw ImageUnreadable("the bitmap cannot be copied")
        return colours(copy).also { copy.recycle() }
    }

    private fun decoded(image: EncodedImage): Pixels {
        val bounds = BitmapFactory.Options().apply { inJustDecodeBounds = true }
        read(image) { BitmapFactory.decodeStream(it, null, bounds) }
        if (bounds.outWidth < 1 || bounds.outHeight < 1) throw ImageUnreadable("the system knows no such kind of image")
        checkSize(bounds.outWidth, bounds.outHeight)
        read(image, ImageHeader::check)
        val options = BitmapFactory.Options().apply {
            inPreferredConfig = Bitmap.Config.ARGB_8888
            // Transparency is dropped: the colours below it stay as they are.
            inPremultiplied = false
            inScaled = false
        }
        val bitmap = read(image) { BitmapFactory.decodeStream(it, null, options) } ?: throw ImageUnreadable("it is damaged")
        return colours(bitmap).also { bitmap.recycle() }.turned(read(image, ::orientation))
    }

    private fun orientation(stream: InputStream) = try {
        ExifInterface(stream).getAttributeInt(ExifInterface.TAG_ORIENTATION, 1)
    } catch (none: IOException) {
        1
    }

    private fun <T> read(image: EncodedImage, body: (InputStream) -> T): T = try {
        image.open().use(body)
    } catch (error: IOException) {
        throw ImageUnreadable(error.message ?: "its bytes cannot be read")
    } catch (error: SecurityException) {
        throw ImageUnreadable(error.message ?: "the app may not read it")
    } catch (error: OutOfMemoryError) {
        throw ImageTooLarge("there is no memory to decode it")
    }

    private fun colours(bitmap: Bitmap): Pixels = try {
        val line = IntArray(bitmap.width)
        val rgb = ByteArray(3 * bitmap.width * bitmap.height)
        var place = 0
        for (y in 0 until bitmap.height) {
            bitmap.getPixels(line, 0, bitmap.width, 0, y, bitmap.width, 1)
            for (colour in line) {
                rgb[place++] = (colour shr 16).toByte()
                rgb[place++] = (colour shr 8).toByte()
                rgb[place++] = colour.toByte()
            }
        }
        Pixels(bitmap.width, bitmap.height, rgb)
    } catch (error: OutOfMemoryError) {
        throw ImageTooLarge("there is no memory for its pixels")
    }
}

/** The image upright, by the orientation that EXIF gives to it as it is stored. */
internal fun Pixels.turned(orientation: Int): Pixels {
    if (orientation !in 2..8) return this
    val across = orientation >= 5
    val fromRight = orientation in setOf(2, 3, 7, 8)
    val fromBelow = orientation in setOf(3, 4, 6, 7)
    val wide = if (across) height else width
    val high = if (across) width else height
    val out = ByteArray(rgb.size)
    var place = 0
    for (y in 0 until high) for (x in 0 until wide) {
        val column = if (across) y else x
        val row = if (across) x else y
        val from = 3 * ((if (fromBelow) height - 1 - row else row) * width + (if (fromRight) width - 1 - column else column))
        for (colour in 0 until 3) out[place++] = rgb[from + colour]
    }
    return Pixels(wide, high, out)
}
