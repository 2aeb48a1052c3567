package dev.edgec.sample.sample

import dev.edgec.sample.ChatMessage
import dev.edgec.sample.EdgecModel
import dev.edgec.sample.GenerationOptions
import kotlinx.coroutines.flow.Flow

/** What a message shows: this model takes no pictures. */
class Pictures {
    /** What the screen says of them. */
    val note: String? get() = null

    fun message(role: ChatMessage.Role, text: String) = ChatMessage(role, text)

    fun ask(model: EdgecModel, text: String, options: GenerationOptions): Flow<String> = model.generate(text, options)
}
