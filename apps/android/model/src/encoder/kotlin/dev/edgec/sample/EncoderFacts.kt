package dev.edgec.sample

private val facts = Facts.OF_MODEL.part("encoder")

/** What the sentence encoder reads and gives, as its bundle says. */
object EncoderLimits {
    /** The most tokens of a text that count, with those that the tokenizer puts around it. */
    val MOST_TOKENS = facts.count("mostTokens")
    /** Values of a text's vector. */
    val WIDTH = facts.count("width")
    /** What the model's authors put before a text, by name. */
    val PROMPTS = facts.table("prompts")
    /** The name of the prompt that is used where none is given. */
    val DEFAULT_PROMPT = facts.textOrNull("defaultPrompt")
}

internal object EncoderFacts {
    /** Whether the artifact takes `MOST_TOKENS` tokens only, so that shorter texts are padded. */
    val IS_PADDED = facts.isTrue("isPadded")
    /** The token that fills the rest, which the mask hides. */
    val PADDING = facts.count("padding")
    /** Tokens that the tokenizer puts before and after every text; they stay when a text is cut. */
    val TOKENS_BEFORE = facts.count("tokensBefore")
    val TOKENS_AFTER = facts.count("tokensAfter")
    /** Whether a text that is cut loses its beginning. */
    val CUTS_BEGINNING = facts.isTrue("cutsBeginning")
    /** How many tokens of a prompt the model reads without pooling them, by the prompt's name. */
    val UNPOOLED = facts.countTable("unpooled")
    /** What the mask says of such a token. */
    val READ_ONLY = facts.count("readOnly")
}
