package dev.edgec.sample

import android.content.ContentResolver
import android.graphics.Bitmap
import android.net.Uri
import java.io.File
import java.io.FileNotFoundException
import java.io.InputStream
import kotlinx.coroutines.flow.Flow

class ImageUnreadable(why: String) : EdgecException("The image cannot be read: $why. Give an intact image in RGB, grey or CMYK.")

class ImageTooLarge(why: String) : EdgecException("The image is too large or too long: $why. Scale it down, or cut it.")

class ImageAnimated(why: String) : EdgecException("The image is animated: $why. Save the frame that you mean as a file.")

class ImagesTooMany(why: String) : EdgecException("The context does not hold so many images: $why. Give fewer.")

class ImagesMisplaced(why: String) :
    EdgecException(
        "The images and their places in the text do not agree: $why. Write the placeholder once for each image, or not at all.",
    )

class ImageNeeded(why: String) : EdgecException("This model answers about images only: $why. Give an image with the prompt.")

class PromptNotWhole(why: String) :
    EdgecException("The model reads a prompt with an image as a whole, and this one is too long: $why. Shorten it.")

/** An image for the model: [Pixels], a [BitmapImage] or an [EncodedImage]. */
sealed interface ModelImage

/** An upright image of [width] x [height] pixels, line by line; each pixel has red, green and blue, a byte each. */
class Pixels(val width: Int, val height: Int, val rgb: ByteArray) : ModelImage {
    init {
        if (width < 1 || height < 1) throw ImageUnreadable("it has $width x $height pixels")
        if (rgb.size.toLong() != 3L * width * height) {
            throw ImageUnreadable("${rgb.size} bytes are not $width x $height pixels of three bytes")
        }
    }
}

/** An upright bitmap of the system. */
class BitmapImage(val bitmap: Bitmap) : ModelImage

/** An image as a file holds it; [open] gives its bytes from the beginning, each time. It is turned as the camera noted. */
class EncodedImage(val open: () -> InputStream) : ModelImage {
    constructor(file: File) : this({ file.inputStream() })

    /** What a picker gave. */
    constructor(resolver: ContentResolver, uri: Uri) :
        this({ resolver.openInputStream(uri) ?: throw FileNotFoundException(uri.toString()) })
}

/**
 * Continue a text about [images], as `generate` does for text alone. They come before the text, unless it names their
 * places by the model's own placeholder.
 */
fun EdgecModel.generate(
    prompt: String,
    images: List<ModelImage>,
    options: GenerationOptions = GenerationOptions(),
    schema: ModelSchema? = null,
): Flow<String> = answer(options, schema) { session.prompt(prompt, images, false, tokenization) }

/** The whole JSON of an answer about [images], as `generateJson` for text alone. */
suspend fun EdgecModel.generateJson(
    prompt: String,
    images: List<ModelImage>,
    schema: ModelSchema,
    options: GenerationOptions = GenerationOptions(),
): String = whole(options, schema) { session.prompt(prompt, images, false, tokenization) }

/** The tokens of a conversation with its images. */
internal fun EdgecModel.prompt(messages: List<ChatMessage>): List<Int> {
    val plain = ChatPrompt.KNOWN && messages.all { it.images.isEmpty() }
    return if (plain) tokenization.encode(messages) else prompt(messages, ReplyFacts.plain[0], mapOf())
}

/** The tokens of a conversation with its images, in the [pieces] of a prompt. */
internal fun EdgecModel.prompt(
    messages: List<ChatMessage>, pieces: PromptPieces?, @Suppress("UNUSED_PARAMETER") switches: Map<String, Boolean>,
): List<Int> {
    val images = messages.flatMap { it.images }
    if (images.isEmpty() || pieces == null) return tokenization.encode(messages, pieces, mapOf())
    return session.prompt(pieces.render(messages), images, true, tokenization)
}
