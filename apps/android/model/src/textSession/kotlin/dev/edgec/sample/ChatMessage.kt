package dev.edgec.sample

/**
 * One message of a conversation.
 *
 * @property tool the name of the tool whose result it is; see [result].
 * @property written an assistant's message with calls as the model wrote it, reasoning included; see [Reply.message].
 */
data class ChatMessage(
    val role: Role,
    val content: String,
    val tool: String = "",
    val written: String? = null,
) {
    @Suppress("EnumEntryName")
    enum class Role { system, user, assistant, tool }

    companion object {
        /** The message with what a tool gave for a call. */
        fun result(call: ToolCall, content: String) = ChatMessage(Role.tool, content, call.name)
    }
}

/** What stands in a prompt for the images of a message: this model takes none. */
internal fun ChatMessage.placeholders(): List<String> = listOf()
