package dev.edgec.sample.sample

import dev.edgec.sample.ChatMessage
import dev.edgec.sample.EdgecModel
import dev.edgec.sample.GenerationOptions
import dev.edgec.sample.ModelImage
import dev.edgec.sample.generate
import kotlinx.coroutines.flow.Flow

/** The pictures that a message shows. */
data class Pictures(val images: List<ModelImage> = listOf()) {
    /** What the screen says of them. */
    val note: String? get() = "pictures: ${images.size}".takeIf { images.isNotEmpty() }

    operator fun plus(image: ModelImage) = Pictures(images + image)

    fun message(role: ChatMessage.Role, text: String) = ChatMessage(role, text, images = images)

    fun ask(model: EdgecModel, text: String, options: GenerationOptions): Flow<String> = model.generate(text, images, options)
}
