package dev.edgec.sample

private val facts = Facts.OF_MODEL.part("decoder")

/** The decoder's limits, as stated in its manifest. */
object ModelLimits {
    /** Positions that the cache holds, for prompt and answer together. */
    val CONTEXT = facts.count("context")
    /** Tokens that one call of the model takes. */
    val PREFILL_CHUNK = facts.count("prefillChunk")
    val VOCABULARY = facts.count("vocabulary")
}

internal object TextFacts {
    val stopTokens = facts.counts("stopTokens").toSet()
    val REPETITION_PENALTY = facts.number("repetitionPenalty")
    /** The bundle's file with a system prompt; empty where there is none. */
    val SYSTEM_PROMPT_FILE = Facts.OF_MODEL.part("fit").text("systemPromptFile")
    val SYSTEM_PROMPT_IS_CHAT = facts.isTrue("systemPromptIsChat")
    /** Whether earlier positions of the cache survive when later ones are written. */
    val CAN_REWIND = facts.isTrue("canRewind")
}
