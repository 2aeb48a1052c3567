package dev.edgec.sample

/**
 * Conversations as the model's chat template writes them: joined from its pieces where edgec found that it is made of
 * pieces, when it generated this code, and otherwise by the template itself.
 */
internal object ChatPrompt {
    private val facts = Facts.OF_MODEL.part("chat")
    val KNOWN = facts.isTrue("known")
    private val pieces = facts.partOrNull("pieces")?.let(::PromptPieces)
    private val program by lazy { facts.partOrNull("program")?.let { TemplateProgram(it.text("tree"), it.table("variables")) } }

    /** Renders a conversation up to where the assistant answers. */
    fun render(messages: List<ChatMessage>, clock: PromptClock = PromptClock.now()): String {
        if (!KNOWN) throw EdgecException("This model has no chat template that fits an app; use generate(prompt).")
        return pieces?.render(messages, clock) ?: whole(messages, mapOf(), clock)
    }

    /** The same by the template itself, with the variables that switch reasoning. */
    fun whole(messages: List<ChatMessage>, switches: Map<String, Boolean>, clock: PromptClock = PromptClock.now()): String {
        val template = program ?: throw MessageRefused("it is not made of pieces that an app can join")
        if (messages.any { it.written != null }) throw MessageRefused("the model's calls need its tools")
        val given = mapOf("messages" to messages.map(::fields), "tools" to null, "documents" to null)
        try {
            return template.render(given + ("add_generation_prompt" to true) + switches, clock)
        } catch (refusal: TemplateRefused) {
            throw MessageRefused(refusal.message.orEmpty())
        }
    }

    private fun fields(message: ChatMessage): Map<String, Any?> {
        val fields = mapOf("role" to message.role.name, "content" to message.content)
        return if (message.tool.isEmpty()) fields else fields + ("name" to message.tool)
    }
}
